// SPDX-License-Identifier: Apache-2.0
#include "edge_client/flash/whole_file_model.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/base/posix.h"

namespace outrider {
namespace {

std::int64_t size_of(const UniqueFd& file) {
  struct stat status {};
  return ::fstat(file.get(), &status) == 0 ? static_cast<std::int64_t>(status.st_size) : -1;
}

class WholeFileModel final : public Model {
 public:
  WholeFileModel(std::unique_ptr<Model> model, std::string path, UniqueFd file,
                 const EmbeddingRows& embedding)
      : model_(std::move(model)),
        path_(std::move(path)),
        file_(std::move(file)),
        embedding_(embedding),
        row_(embedding.bytes) {}

  const ModelInfo& info() const override { return model_->info(); }
  Result<std::shared_ptr<KvPages>> new_pages(std::int32_t count) override {
    return model_->new_pages(count);
  }
  Status forward(std::span<const Row> rows, PassOutput& out) override {
    OUTRIDER_RETURN_IF_ERROR(check_unchanged());
    for (const Row& row : rows) OUTRIDER_RETURN_IF_ERROR(read(row.token));
    return model_->forward(rows, out);
  }
  Status take_heads(const LayerHeads& heads) override { return model_->take_heads(heads); }
  Status check_unchanged() const override {
    const std::int64_t size = size_of(file_);
    if (size >= size_) return model_->check_unchanged();
    return data_loss(path_ + ", the embedding: the file was cut short, from " +
                     std::to_string(size_) + " to " + std::to_string(size) + " bytes");
  }

 private:
  // The model itself refuses an id that is no token.
  Status read(TokenId token) {
    if (token < 0 || token >= info().vocab_size) return {};
    const std::uint64_t at = embedding_.offset + static_cast<std::uint64_t>(token) * row_.size();
    std::size_t done = 0;
    while (done < row_.size()) {
      const ssize_t got = ::pread(file_.get(), row_.data() + done, row_.size() - done,
                                  static_cast<off_t>(at + done));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) {
        return data_loss(path_ + ", the embedding: the row of token " + std::to_string(token) +
                         " at byte " + std::to_string(at) + " cannot be read: " +
                         (got < 0 ? errno_message(errno) : "the file ends before it"));
      }
      done += static_cast<std::size_t>(got);
    }
    return {};
  }

  const std::unique_ptr<Model> model_;
  const std::string path_;
  const UniqueFd file_;
  const std::int64_t size_ = size_of(file_);
  const EmbeddingRows embedding_;
  std::vector<std::byte> row_;  // read, and looked at by nobody
};

}  // namespace

Result<std::unique_ptr<Model>> make_whole_file_model(std::unique_ptr<Model> model,
                                                     const std::string& path,
                                                     const EmbeddingRows& rows) {
  UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return not_found(path + ": " + errno_message(errno));
  return std::unique_ptr<Model>(
      std::make_unique<WholeFileModel>(std::move(model), path, std::move(file), rows));
}

}  // namespace outrider
