// The compute nodes of a cluster as fibres of one thread, and which of them runs. Node 0 is the thread
// itself.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "base/result.h"
#include "sim/shell/fibre.h"
#include "sim/shell/fibre_variables.h"

namespace braid::sim {

class NodeFibres {
 public:
  // Runs on a node's fibre when it is first resumed; must not return.
  using Entry = std::function<void(unsigned node)>;

  // Called on the thread that runs the fibres.
  NodeFibres(unsigned nodes, Entry entry);
  NodeFibres(const NodeFibres&) = delete;
  NodeFibres& operator=(const NodeFibres&) = delete;

  // Each node has thread-local variables (fibre_variables.h) and a stack for signals of its own from now on. Before make_all().
  // It allocates.
  void separate();
  // The calling node's thread-local variables begin anew.
  void renew_variables() const;

  unsigned current() const { return current_; }
  // Makes the fibres that do not exist yet. It allocates, so it must not be called inside a fault.
  Result<void> make_all();
  // The node's fibre exists. Returns when the calling node is switched to again.
  void switch_to(unsigned node);

 private:
  struct Node {
    NodeFibres* fibres = nullptr;
    unsigned number = 0;
    std::unique_ptr<Fibre> fibre;
    // Where nodes are separate.
    FibreVariables variables;
    std::unique_ptr<std::byte[]> signal_stack;
  };

  void begin(Node& node);
  void arrive(Node& node) const;

  const Entry entry_;
  unsigned current_ = 0;
  bool are_separate_ = false;
  std::vector<Node> nodes_;
};

}  // namespace braid::sim
