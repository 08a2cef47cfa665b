// The compute nodes of a cluster as fibres of one thread, and which of them runs. Node 0 is what the thread
// runs already.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "base/result.h"
#include "sim/shell/fibre.h"

namespace braid::sim {

class NodeFibres {
 public:
  // What a node runs when it is first switched to, with its number; it must not return.
  using Entry = std::function<void(unsigned node)>;

  // On the thread that they will be fibres of.
  NodeFibres(unsigned nodes, Entry entry);
  NodeFibres(const NodeFibres&) = delete;
  NodeFibres& operator=(const NodeFibres&) = delete;

  unsigned current() const { return current_; }
  // Makes those that there are not yet. Nodes have no stack before, so this is not for the middle of a fault.
  Result<void> make_all();
  // Returns when somebody switches back. The node's fibre has been made.
  void switch_to(unsigned node);

 private:
  struct Node {
    NodeFibres* fibres = nullptr;
    unsigned number = 0;
    std::unique_ptr<Fibre> fibre;
  };

  const Entry entry_;
  unsigned current_ = 0;
  std::vector<Node> nodes_;
};

}  // namespace braid::sim
