// The messages that an engine refused: how many, and the
// first. Later ones may be refused only because of the first.
#pragma once

#include <optional>

#include "dsm/engine/types.h"

namespace braid::dsm {

class Refusals {
 public:
  explicit Refusals(ClusterCounts& counts) : counts_(counts) {}

  void add(const Refusal& refusal) {
    ++counts_.bad_messages;
    if (!first_) first_ = refusal;
  }
  const std::optional<Refusal>& first() const { return first_; }

 private:
  ClusterCounts& counts_;
  std::optional<Refusal> first_;
};

}  // namespace braid::dsm
