// Speedy Transformer Inference (Guo et al. 2023), STI: lossy. The target is read in shards, each of
// which lies on the flash with several numbers of bits. So many bits are read as fit into a target
// latency, more of them where they matter more.
//
// Here a shard is a layer (the paper cuts layers into slices). A shard of b bits holds each weight
// as one of 2^b - 1 steps of its group of 64, symmetric about 0; embedding and output matrix stay
// as they are.
//
// Thread rule: pure functions, except write_shards(). SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <vector>

#include "common/base/status.h"

namespace outrider {

// The numbers of bits of a shard (STI, section 4), the fewest first.
inline constexpr int kShardBits[] = {2, 3, 4, 5, 6};

// Bits by layer, with a mean of at most mean_bits, and 2 each at least. Round by round, the layers
// that matter most get a bit more while that fits. importance: by layer.
std::vector<int> plan_shards(std::span<const double> importance, double mean_bits);

// Rounds values, a whole number of rows, to shards of so many bits, 2 to 8.
void round_to_bits(std::span<float> values, int bits);

// Writes a copy of the model directory with layers of so many bits, without its tokenizer. bits: by
// layer; 0: as it is. Errors: of reading the model and writing the copy; INVALID_ARGUMENT if the
// model has another number of layers.
Status write_shards(const std::string& model, std::span<const int> bits, const std::string& out);

}  // namespace outrider
