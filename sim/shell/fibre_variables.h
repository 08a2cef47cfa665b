// The thread-local variables of the program itself, of which each fibre can have its own: the block that the program file
// defines (__thread, thread_local), of one thread, and that of the C++ library. Those of other shared libraries stay common to all fibres
// of the thread. Their addresses are the same for all fibres, too: a pointer to one must not be given to another.
#pragma once

#include <cstddef>
#include <vector>

namespace braid::sim {

class FibreVariables {
 public:
  // With the values that a new thread has.
  FibreVariables() = default;
  // save() allocates nothing from now on.
  void make_room();

  // Both on the thread whose variables they are. Nothing that runs meanwhile has thread-local variables.
  void save();
  void restore() const;

 private:
  std::vector<std::byte> values_;
  bool is_new_ = true;
};

}  // namespace braid::sim
