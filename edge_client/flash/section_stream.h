// Streams the sections of a file through a ring of memory, round and round: while one is in use,
// those behind it are read, and behind the last one stands the first again. So the next pass finds
// its first layers there.
//
//   SectionStream stream(std::move(reader), sections, std::move(ring), options, clock);
//   const std::byte* first = *stream.acquire(0);   // waits until it has been read
//   const std::byte* second = *stream.acquire(1);  // the first one's memory goes back
//   stream.release();
//
// Sections are best acquired in their order; some may be skipped, and another order costs reading
// anew. A stream on demand reads only what is requested, in that order. Checksums are compared when
// a piece is first read.
//
// Thread rule: one thread acquires; a thread of the stream's own reads. stats() from any.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/engine/model/cpu/anonymous_memory.h"
#include "edge_client/flash/extent_reader.h"
#include "edge_client/flash/memory_ring.h"

namespace outrider {

// A piece that has a checksum of its own (pack_checksum.h).
struct SectionPiece {
  std::string name;  // for errors: "level 60"; empty: it is the whole section
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::uint64_t checksum = 0;
};

struct StreamSection {
  std::string name;  // for errors: "layer 3"
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;           // multiples of kDirectAlignment, as the offset
  std::vector<SectionPiece> pieces;  // in their order
  std::size_t number = 0;            // the user's, for on_read
};

// DATA_LOSS naming the piece unless the bytes of a section, from its begin on, have their checksum.
Status check_piece(const StreamSection& section, const SectionPiece& piece, const std::byte* bytes);
// A read of `bytes` from `at` of the section on has failed so: with the names of the pieces in it.
Status failed_read(const StreamSection& section, std::uint64_t at, std::uint64_t bytes,
                   const Status& status);

struct StreamStats {
  std::uint64_t bytes_read = 0;
  Duration waited{};   // in acquire(), for what was not there yet
  Duration reading{};  // with reads in flight
};

struct SectionStreamOptions {
  // Bytes per second; 0: as fast as the disk. A slower device, emulated: what was read earlier is
  // held back.
  double bandwidth = 0;
  bool on_demand = false;  // reads what is requested; else all, round and round
  // Called by the reading thread when a section is whole, with the time its reads took; null:
  // nobody asks.
  std::function<void(const StreamSection& section, TimePoint begin, TimePoint end)> on_read =
      nullptr;
};

class SectionStream final {
 public:
  // ring: holds at least the largest section. clock outlives this.
  SectionStream(std::unique_ptr<ExtentReader> reader, std::vector<StreamSection> sections,
                AnonymousMemory ring, std::size_t ring_bytes, const SectionStreamOptions& options,
                Clock& clock);
  // After the reads in flight.
  ~SectionStream();
  SectionStream(const SectionStream&) = delete;
  SectionStream& operator=(const SectionStream&) = delete;

  // The section's bytes, until the next call of acquire() or release(). Errors: DATA_LOSS naming
  // the section; the next acquire() reads it again.
  Result<const std::byte*> acquire(std::size_t index);
  void release();
  // For a stream on demand: these sections are read next, to be acquired in this order. Earlier
  // requests that were not acquired are forgotten. Releases the acquired section.
  void request(std::span<const std::size_t> sections);

  // From now on these are streamed, through the same memory, which holds the largest of them.
  // Releases what is acquired, and forgets what was read ahead.
  void replace(std::vector<StreamSection> sections);

  StreamStats stats() const;
  // The ring, to which all sections are read.
  std::span<std::byte> memory() const { return {memory_.as<std::byte>(), ring_bytes_}; }

 private:
  // A section that is in the ring or on its way.
  struct Entry {
    std::size_t index = 0;
    std::size_t place = 0;  // in the ring
    std::uint64_t sent = 0;
    std::uint64_t done = 0;
    TimePoint begin;  // of its first read
    bool ready = false;
    Status status;
  };
  struct Chunk {
    std::shared_ptr<Entry> entry;
    std::uint64_t at = 0;  // of the section
    std::uint64_t bytes = 0;
    TimePoint sent;
  };

  void read_on();
  bool submit_chunk();
  void finish_chunk();
  void check(Entry& entry);
  void hold_back(const Chunk& chunk);
  bool await_work();
  std::shared_ptr<Entry> entry_to_send() OUTRIDER_REQUIRES(mu_);
  void drop_front() OUTRIDER_REQUIRES(mu_);
  void begin_with(std::deque<std::size_t> next,
                  std::optional<std::vector<StreamSection>> sections = std::nullopt)
      OUTRIDER_REQUIRES(mu_);
  std::deque<std::size_t> from_on(std::size_t index, std::size_t count) const;

  const std::unique_ptr<ExtentReader> reader_;
  const AnonymousMemory memory_;
  const std::size_t ring_bytes_;
  const SectionStreamOptions options_;
  Clock& clock_;

  // Owned by the reading thread; another one reads it under the lock.
  std::vector<StreamSection> sections_;

  // Owned by the reading thread.
  std::vector<Chunk> in_flight_;  // by tag; an entry of null: free
  std::size_t num_in_flight_ = 0;
  TimePoint reading_since_{};        // not counted yet; while any are in flight
  std::set<std::uint64_t> checked_;  // pieces, by their offsets
  TimePoint free_at_{};              // when the emulated disk is done with what it was asked for

  mutable Mutex mu_;
  CondVar changed_;
  std::deque<std::shared_ptr<Entry>> entries_ OUTRIDER_GUARDED_BY(mu_);  // in the ring's order
  MemoryRing ring_ OUTRIDER_GUARDED_BY(mu_);
  std::deque<std::size_t> next_ OUTRIDER_GUARDED_BY(mu_);  // sections to be read, in this order
  bool acquired_ OUTRIDER_GUARDED_BY(mu_) = false;         // the first of entries_
  // The sections to read instead of those that were wrongly read ahead, perhaps with other
  // contents.
  std::optional<std::deque<std::size_t>> restart_with_ OUTRIDER_GUARDED_BY(mu_);
  std::optional<std::vector<StreamSection>> replaced_by_ OUTRIDER_GUARDED_BY(mu_);
  bool stopping_ OUTRIDER_GUARDED_BY(mu_) = false;
  StreamStats stats_ OUTRIDER_GUARDED_BY(mu_);

  std::thread thread_;  // last: begins when all else is there
};

}  // namespace outrider
