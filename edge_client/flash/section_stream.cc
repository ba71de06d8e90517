// SPDX-License-Identifier: Apache-2.0
#include "edge_client/flash/section_stream.h"

#include <algorithm>
#include <utility>

#include "common/engine/model/cpu/pack/pack_checksum.h"

namespace outrider {
namespace {

// Large enough for a disk's full rate, small enough that several are in flight within a layer.
constexpr std::uint64_t kChunkBytes = 1 << 20;

Status named(const std::string& piece, const Status& status) {
  return piece.empty() ? status : status.with_context(piece);
}

}  // namespace

Status check_piece(const StreamSection& section, const SectionPiece& piece,
                   const std::byte* bytes) {
  const std::span content(bytes + (piece.offset - section.offset),
                          static_cast<std::size_t>(piece.bytes));
  if (pack_checksum(content) == piece.checksum) return {};
  return named(piece.name, data_loss("its checksum is wrong: the file is damaged; pack it again"));
}

Status failed_read(const StreamSection& section, std::uint64_t at, std::uint64_t bytes,
                   const Status& status) {
  std::string names;
  for (const SectionPiece& piece : section.pieces) {
    const std::uint64_t begin = piece.offset - section.offset;
    if (begin >= at + bytes || begin + piece.bytes <= at) continue;
    names += (names.empty() || piece.name.empty() ? "" : ", ") + piece.name;
  }
  return named(names, status);
}

SectionStream::SectionStream(std::unique_ptr<ExtentReader> reader,
                             std::vector<StreamSection> sections, AnonymousMemory ring,
                             std::size_t ring_bytes, const SectionStreamOptions& options,
                             Clock& clock)
    : reader_(std::move(reader)),
      memory_(std::move(ring)),
      ring_bytes_(ring_bytes),
      options_(options),
      clock_(clock),
      sections_(std::move(sections)),
      in_flight_(reader_->depth()),
      ring_(ring_bytes),
      next_(from_on(0, sections_.size())),
      thread_([this] { read_on(); }) {}

SectionStream::~SectionStream() {
  {
    const MutexLock lock(mu_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

Result<const std::byte*> SectionStream::acquire(std::size_t index) {
  release();
  const TimePoint asked = clock_.now();
  const MutexLock lock(mu_);
  const auto is_it = [&](const std::shared_ptr<Entry>& entry) { return entry->index == index; };
  const bool is_next = entries_.empty() && !next_.empty() && next_.front() == index;
  const bool is_requested = options_.on_demand && std::ranges::find(next_, index) != next_.end();
  if (std::ranges::none_of(entries_, is_it) && !is_next && !is_requested) {
    begin_with(options_.on_demand ? std::deque{index} : from_on(index, sections_.size()));
  }
  while (true) {
    while (entries_.empty() || !entries_.front()->ready) changed_.wait(mu_);
    if (entries_.front()->index == index) break;
    drop_front();  // skipped
  }
  stats_.waited += clock_.now() - asked;
  const std::shared_ptr<Entry> entry = entries_.front();
  if (!entry->status.ok()) {
    begin_with(from_on(index, sections_.size()));
    return entry->status.with_context(sections_[index].name);
  }
  acquired_ = true;
  return memory_.as<const std::byte>() + entry->place;
}

void SectionStream::release() {
  const MutexLock lock(mu_);
  if (std::exchange(acquired_, false)) drop_front();
}

void SectionStream::request(std::span<const std::size_t> sections) {
  release();
  const MutexLock lock(mu_);
  std::deque<std::size_t> wanted(sections.begin(), sections.end());
  if (!entries_.empty()) return begin_with(std::move(wanted));
  next_ = std::move(wanted);
  changed_.notify_all();
}

void SectionStream::replace(std::vector<StreamSection> sections) {
  release();
  const MutexLock lock(mu_);
  std::deque<std::size_t> next = from_on(0, sections.size());
  begin_with(std::move(next), std::move(sections));
}

// All sections, this one first, if the stream goes round; otherwise none.
std::deque<std::size_t> SectionStream::from_on(std::size_t index, std::size_t count) const {
  std::deque<std::size_t> sections;
  if (options_.on_demand) return sections;
  for (std::size_t i = 0; i < count; ++i) sections.push_back((index + i) % count);
  return sections;
}

StreamStats SectionStream::stats() const {
  const MutexLock lock(mu_);
  return stats_;
}

void SectionStream::drop_front() {
  entries_.pop_front();
  ring_.give_back();
  changed_.notify_all();
}

// Forgets what was read ahead; returns when nothing of it is in flight.
void SectionStream::begin_with(std::deque<std::size_t> next,
                               std::optional<std::vector<StreamSection>> sections) {
  restart_with_ = std::move(next);
  replaced_by_ = std::move(sections);
  changed_.notify_all();
  while (restart_with_) changed_.wait(mu_);
}

// The reading thread.
void SectionStream::read_on() {
  while (await_work()) {
    while (num_in_flight_ < reader_->depth() && submit_chunk()) {
    }
    if (num_in_flight_ > 0) finish_chunk();
  }
  while (num_in_flight_ > 0) finish_chunk();
}

// False when the stream is to end.
bool SectionStream::await_work() {
  const MutexLock lock(mu_);
  while (!stopping_) {
    if (restart_with_ && num_in_flight_ == 0) {
      entries_.clear();
      ring_.clear();
      next_ = *std::exchange(restart_with_, std::nullopt);
      if (replaced_by_) sections_ = *std::exchange(replaced_by_, std::nullopt);
      changed_.notify_all();
    }
    if (num_in_flight_ > 0 || entry_to_send() != nullptr) return true;
    changed_.wait(mu_);
  }
  return false;
}

// The section whose next chunk is to be read; null: there is no room for one.
std::shared_ptr<SectionStream::Entry> SectionStream::entry_to_send() {
  if (restart_with_ || stopping_) return nullptr;
  if (!entries_.empty() && entries_.back()->sent < sections_[entries_.back()->index].bytes) {
    return entries_.back();
  }
  if (next_.empty()) return nullptr;
  const std::size_t index = next_.front();
  const std::optional<std::size_t> place = ring_.take(sections_[index].bytes);
  if (!place) return nullptr;
  auto entry = std::make_shared<Entry>();
  entry->index = index;
  entry->place = *place;
  entries_.push_back(entry);
  next_.pop_front();
  if (!options_.on_demand) next_.push_back(index);
  return entry;
}

bool SectionStream::submit_chunk() {
  std::shared_ptr<Entry> entry;
  {
    const MutexLock lock(mu_);
    entry = entry_to_send();
  }
  if (entry == nullptr) return false;
  const StreamSection& section = sections_[entry->index];
  const std::uint64_t bytes = std::min(kChunkBytes, section.bytes - entry->sent);
  const auto free = std::ranges::find(in_flight_, nullptr, &Chunk::entry);
  *free = {.entry = entry, .at = entry->sent, .bytes = bytes, .sent = clock_.now()};
  if (entry->sent == 0) entry->begin = free->sent;
  if (num_in_flight_ == 0) reading_since_ = free->sent;
  reader_->submit({.offset = section.offset + entry->sent,
                   .buffer = {memory_.as<std::byte>() + entry->place + entry->sent,
                              static_cast<std::size_t>(bytes)},
                   .tag = static_cast<std::uint64_t>(free - in_flight_.begin())});
  entry->sent += bytes;
  ++num_in_flight_;
  return true;
}

void SectionStream::finish_chunk() {
  const ReadResult result = reader_->wait();
  const Chunk chunk = std::exchange(in_flight_[result.tag], {});
  --num_in_flight_;
  hold_back(chunk);
  Entry& entry = *chunk.entry;
  entry.done += chunk.bytes;
  const bool whole = entry.done == sections_[entry.index].bytes;
  if (!result.status.ok() && entry.status.ok()) {
    entry.status = failed_read(sections_[entry.index], chunk.at, chunk.bytes, result.status);
  }
  if (whole) check(entry);
  const TimePoint now = clock_.now();
  if (whole && options_.on_read) options_.on_read(sections_[entry.index], entry.begin, now);
  const MutexLock lock(mu_);
  stats_.bytes_read += chunk.bytes;
  stats_.reading += now - std::exchange(reading_since_, now);
  entry.ready = whole;
  if (whole) changed_.notify_all();
}

void SectionStream::check(Entry& entry) {
  const StreamSection& section = sections_[entry.index];
  const std::byte* const bytes = memory_.as<const std::byte>() + entry.place;
  for (const SectionPiece& piece : section.pieces) {
    if (!entry.status.ok()) return;
    if (checked_.contains(piece.offset)) continue;
    entry.status = check_piece(section, piece, bytes);
    if (entry.status.ok()) checked_.insert(piece.offset);
  }
}

void SectionStream::hold_back(const Chunk& chunk) {
  if (options_.bandwidth <= 0) return;
  const double seconds = static_cast<double>(chunk.bytes) / options_.bandwidth;
  free_at_ = std::max(free_at_, chunk.sent) + from_ms(seconds * 1e3);
  clock_.sleep_until(free_at_);
}

}  // namespace outrider
