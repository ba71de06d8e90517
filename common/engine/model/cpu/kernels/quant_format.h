// The layout of int8, int6 or int4 matrices, and of int8 rows of activations.
//
// A stored weight means scale * (value - zero) + minimum; its value is an unsigned number of 8, 6
// or 4 bits, or what a table has for one of 4 bits. Along K, 32 elements are a group: activations
// have one scale per group, weights one scale and minimum per group or per half group. 16 outputs
// are a panel, which is contiguous:
//
//   values    [groups][steps][16 outputs][4 bytes]
//             int8, 8 steps: byte i of step s = element 4s + i
//             int4, 4 steps: byte i of step s = element 4s + i (low half), 16 + 4s + i (high half)
//             int6: the low 4 bits as int4, then two steps with the high ones: bits 2s and 2s + 1
//             of byte i of step p = those of element 16p + 4s + i
//   scales    [groups * 32 / scale_group][16 outputs], f16 or f32
//   minimums  as many as scales and of their type, where the format has them
//
// Scales and minimums may also be multiples of units, as the K types of GGUF store them: each is a
// whole number of 8 bits times an f16 unit, which is exact in f32, and 8 groups share a unit. A
// panel then is blocks of 8 groups, one after the other, each with all that its groups need:
//
//   units     [16 outputs] f16; the minimums' units
//   scales    [8 * 32 / scale_group][16 outputs] int8; the minimums
//   values    as above, from a multiple of 64 bytes on; the last block has those of its groups only
//
// So a 32-bit integer lane sums one output's products and no sum crosses lanes on any CPU
// (docs/row-invariance.md), and a product reads a panel as one stream. K is padded to whole groups
// and the outputs to whole panels, with zeros.
//
// Thread rule: values. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace outrider {

inline constexpr std::int64_t kQuantGroup = 32;
inline constexpr std::int64_t kPanelOutputs = 16;
inline constexpr std::int64_t kBlockGroups = 8;  // that share units

// IQ4_NL's values as numbers of 8 bits, of which 128 means 0.
inline constexpr std::uint8_t kTableValues[16] = {1,   24,  45,  63,  79,  93,  106, 118,
                                                  129, 141, 153, 166, 181, 197, 217, 241};

enum class ScaleType : std::uint8_t { kF16, kF32, kMultiples };

struct QuantFormat {
  std::uint8_t bits = 8;               // 8, 4, or 6 with multiples for 16 weights each
  std::uint8_t scale_group = 32;       // weights per scale: 32 or 16
  ScaleType scales = ScaleType::kF16;  // and minimums
  bool has_minimum = false;            // then values of 8 bits are at most 127
  bool has_table = false;              // values of 4 bits index kTableValues; 32 weights per scale

  // The value that means 0 before the minimum is added.
  std::int32_t zero() const { return has_minimum ? 0 : has_table ? 128 : 1 << (bits - 1); }
  constexpr std::int64_t scales_per_group() const { return kQuantGroup / scale_group; }
  constexpr std::int64_t scale_bytes() const {
    return scales == ScaleType::kF32 ? 4 : scales == ScaleType::kF16 ? 2 : 1;
  }

  friend bool operator==(const QuantFormat&, const QuantFormat&) = default;
};

inline constexpr std::int64_t kUnitBytes = 2 * kPanelOutputs;

// The bytes of a block before its values; 0 where scales are no multiples.
constexpr std::int64_t block_header_bytes(const QuantFormat& format) {
  if (format.scales != ScaleType::kMultiples) return 0;
  const std::int64_t rows = kBlockGroups * format.scales_per_group();
  const std::int64_t bytes = (kUnitBytes + rows * kPanelOutputs) * (format.has_minimum ? 2 : 1);
  return (bytes + 63) / 64 * 64;
}

// Offsets within a matrix of one format, in bytes from a panel's begin.
class PanelLayout {
 public:
  PanelLayout(const QuantFormat& format, std::int64_t inputs)
      : groups((inputs + kQuantGroup - 1) / kQuantGroup),
        group_bytes(kPanelOutputs * kQuantGroup * format.bits / 8),
        header_bytes(block_header_bytes(format)),
        scale_row(kPanelOutputs * format.scale_bytes()),
        rows_of_block_(kBlockGroups * format.scales_per_group()) {
    const bool has_units = header_bytes > 0;
    const std::int64_t all_scales =
        (has_units ? rows_of_block_ : groups * format.scales_per_group()) * scale_row;
    scales_ = has_units ? kUnitBytes * (format.has_minimum ? 2 : 1) : groups * group_bytes;
    minimums_ = scales_ + all_scales;
    const std::int64_t blocks = (groups + kBlockGroups - 1) / kBlockGroups;
    const std::int64_t end = has_units ? blocks * header_bytes + groups * group_bytes
                                       : minimums_ + (format.has_minimum ? all_scales : 0);
    panel_bytes = (end + 63) / 64 * 64;
  }

  static std::int64_t panels(std::int64_t outputs) {
    return (outputs + kPanelOutputs - 1) / kPanelOutputs;
  }

  std::int64_t values(std::int64_t group) const {
    return group * group_bytes + (group / kBlockGroups + 1) * header_bytes;
  }
  // Row `index` of scales or minimums.
  std::int64_t scales(std::int64_t index) const { return scales_ + row(index); }
  std::int64_t minimums(std::int64_t index) const { return minimums_ + row(index); }
  // A group's units, where scales are multiples.
  std::int64_t units(std::int64_t group) const { return group / kBlockGroups * block_bytes(); }
  std::int64_t minimum_units(std::int64_t group) const { return units(group) + kUnitBytes; }
  std::int64_t block_bytes() const { return header_bytes + kBlockGroups * group_bytes; }

  std::int64_t groups;
  std::int64_t group_bytes;   // values of one group
  std::int64_t header_bytes;  // see block_header_bytes()
  std::int64_t scale_row;     // bytes of a row of scales
  std::int64_t panel_bytes;   // a multiple of 64

 private:
  std::int64_t row(std::int64_t index) const {
    if (header_bytes == 0) return index * scale_row;
    return index / rows_of_block_ * block_bytes() + index % rows_of_block_ * scale_row;
  }

  std::int64_t rows_of_block_;
  std::int64_t scales_, minimums_;  // of the first block
};

// Which multiples of their units a group's scales and minimums are.
struct Multiples {
  float unit = 0.0f;  // an f16 number
  float minimum_unit = 0.0f;
  std::int8_t scales[2] = {};
  std::int8_t minimums[2] = {};
};

// 32 quantised weights of one output: the input of a panel.
struct WeightGroup {
  std::uint8_t values[kQuantGroup] = {};
  float scales[2] = {};  // the second where scale_group is 16
  float minimum = 0.0f;
  float second_minimum = 0.0f;  // where scale_group is 16
  Multiples multiples;          // where the scales are such; then also in `scales`
};

// 32 activations of a row, x = scale * value, values in [-127, 127], with everything that a product
// needs of them, in one cache line. A row is its groups one after the other, at a multiple of 64
// bytes. Offsets correct a sum for the weights' zero: -zero * the sum of the values.
struct QuantizedGroup {
  std::int8_t values[kQuantGroup];
  float scale;
  float scaled_sum;               // scale * the sum of the values
  std::int32_t offset4;           // for int4
  std::int32_t offset8;           // for int8
  std::int32_t half_offsets8[2];  // for int8 with a scale for each half group
  std::int32_t unused[2];         // 0
};
static_assert(sizeof(QuantizedGroup) == 64);

constexpr std::int64_t quantized_row_bytes(std::int64_t count) {
  return (count + kQuantGroup - 1) / kQuantGroup *
         static_cast<std::int64_t>(sizeof(QuantizedGroup));
}

}  // namespace outrider
