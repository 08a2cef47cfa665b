#include "sim/shell/node_fibres.h"

#include "base/check.h"

namespace braid::sim {

NodeFibres::NodeFibres(unsigned nodes, Entry entry) : entry_(std::move(entry)), nodes_(nodes) {
  for (unsigned n = 0; n < nodes; ++n) {
    nodes_[n].fibres = this;
    nodes_[n].number = n;
  }
  nodes_[0].fibre = Fibre::of_thread();
}

Result<void> NodeFibres::make_all() {
  for (Node& node : nodes_) {
    if (node.fibre != nullptr) continue;
    Result<std::unique_ptr<Fibre>> fibre = Fibre::make(
        [](void* argument) {
          const auto* const self = static_cast<const Node*>(argument);
          self->fibres->entry_(self->number);
        },
        &node);
    if (!fibre) return fibre.error();
    node.fibre = std::move(fibre).value();
  }
  return {};
}

void NodeFibres::switch_to(unsigned node) {
  if (node == current_) return;
  CHECK(nodes_[node].fibre != nullptr);
  Fibre& left = *nodes_[current_].fibre;
  current_ = node;
  left.resume(*nodes_[node].fibre);
}

}  // namespace braid::sim
