#include "sim/shell/node_fibres.h"

#include "base/check.h"
#include "dsm/program/program_signals.h"

namespace braid::sim {

namespace {

// As SignalStack's (dsm/program/faults.h).
constexpr std::size_t kSignalStackBytes = 128u << 10;

}  // namespace

NodeFibres::NodeFibres(unsigned nodes, Entry entry) : entry_(std::move(entry)), nodes_(nodes) {
  for (unsigned n = 0; n < nodes; ++n) {
    nodes_[n].fibres = this;
    nodes_[n].number = n;
  }
  nodes_[0].fibre = Fibre::of_thread();
}

void NodeFibres::separate() {
  CHECK_EQ(current_, 0u);
  are_separate_ = true;
  for (Node& node : nodes_) {
    node.variables.make_room();
    node.signal_stack = std::make_unique<std::byte[]>(kSignalStackBytes);
  }
  dsm::change_signal_stack(nodes_[0].signal_stack.get(), kSignalStackBytes);
}

void NodeFibres::renew_variables() const {
  CHECK(are_separate_);
  FibreVariables().restore();
  dsm::change_signal_stack(nodes_[current_].signal_stack.get(), kSignalStackBytes);
}

// On the node's fibre, whenever it is switched to.
void NodeFibres::arrive(Node& node) const {
  if (!are_separate_) return;
  node.variables.restore();
  dsm::change_signal_stack(node.signal_stack.get(), kSignalStackBytes);
}

void NodeFibres::begin(Node& node) {
  arrive(node);
  entry_(node.number);
}

Result<void> NodeFibres::make_all() {
  for (Node& node : nodes_) {
    if (node.fibre != nullptr) continue;
    Result<std::unique_ptr<Fibre>> fibre = Fibre::make(
        [](void* argument) {
          auto* const self = static_cast<Node*>(argument);
          self->fibres->begin(*self);
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
  Node& left = nodes_[current_];
  if (are_separate_) left.variables.save();
  current_ = node;
  left.fibre->resume(*nodes_[node].fibre);
  arrive(left);
}

}  // namespace braid::sim
