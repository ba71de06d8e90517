// A choice among our own kinds of something, or a guest: one that another program brings along to
// compare ours with (bench/lab). A guest goes by its own name.
//
//   enum class Dog : std::uint8_t { kPoodle, kGuest };  // kGuest is not among the enum's names
//   using DogChoice = OwnOrGuest<Dog, GuestDog>;        // GuestDog has a member `name`
//
// Thread rule: a value. Ownership: the guest outlives it. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/base/enum_names.h"

namespace outrider {

template <NamedEnum Own, typename Guest>
class OwnOrGuest final {
 public:
  using OwnKind = Own;
  using GuestKind = Guest;

  constexpr OwnOrGuest(Own own) : own_(own) {}  // NOLINT: stands for it
  constexpr explicit OwnOrGuest(const Guest& guest) : own_(Own::kGuest), guest_(&guest) {}

  constexpr operator Own() const { return own_; }           // NOLINT: kGuest of a guest
  constexpr const Guest& guest() const { return *guest_; }  // only of kGuest

  friend constexpr const char* name_of(const OwnOrGuest& choice) {
    return choice.guest_ != nullptr ? choice.guest_->name : outrider::name_of(choice.own_);
  }

 private:
  Own own_;
  const Guest* guest_ = nullptr;
};

}  // namespace outrider
