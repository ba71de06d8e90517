// SPDX-License-Identifier: Apache-2.0
#include "edge_client/flash/whole_file_model.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdint>
#include <span>
#include <utility>

#include "common/base/posix.h"

namespace outrider {
namespace {

std::int64_t size_of(const UniqueFd& file) {
  struct stat status {};
  return ::fstat(file.get(), &status) == 0 ? static_cast<std::int64_t>(status.st_size) : -1;
}

class WholeFileModel final : public Model {
 public:
  WholeFileModel(std::unique_ptr<Model> model, std::string path, UniqueFd file)
      : model_(std::move(model)), path_(std::move(path)), file_(std::move(file)) {}

  const ModelInfo& info() const override { return model_->info(); }
  Result<std::unique_ptr<KvCache>> new_cache(std::int32_t capacity) override {
    return model_->new_cache(capacity);
  }
  Status forward(std::span<const Row> rows, PassOutput& out) override {
    const std::int64_t size = size_of(file_);
    if (size >= size_) return model_->forward(rows, out);
    return data_loss(path_ + ", the embedding: the file was cut short, from " +
                     std::to_string(size_) + " to " + std::to_string(size) + " bytes");
  }

 private:
  const std::unique_ptr<Model> model_;
  const std::string path_;
  const UniqueFd file_;
  const std::int64_t size_ = size_of(file_);
};

}  // namespace

Result<std::unique_ptr<Model>> make_whole_file_model(std::unique_ptr<Model> model,
                                                     const std::string& path) {
  UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return not_found(path + ": " + errno_message(errno));
  return std::unique_ptr<Model>(
      std::make_unique<WholeFileModel>(std::move(model), path, std::move(file)));
}

}  // namespace outrider
