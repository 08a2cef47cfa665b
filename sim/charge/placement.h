// Decides where a function's costs are charged. Invariant: at every boundary (cost_table.h), and when the
// function is left, the sum of all charges equals the cost of the statements executed so far. Between
// boundaries a charge may be made early, because fewer charges make the program faster.
//
// Part of the compiler plug-in.
#pragma once

#include "sim/charge/cost_table.h"

namespace braid::charge {

class Placement {
 public:
  // kShared: the code may run on a stack in shared memory (BraidSpentStack in budget.h).
  enum class Stacks { kPrivate, kShared };

  // kFollow: accesses of memory must not be moved across a charge, for they are checked before them (check_accesses.h).
  enum class Checks { kNone, kFollow };

  // Each segment is charged at its start. The caller has computed loops, dominators and post-dominators, and
  // keeps them until after insert().
  Placement(function* f, Stacks stacks, Checks checks);

  // Charges a loop at its entry if its number of iterations is known there, so that it can be vectorised.
  void charge_loops_at_entry();

  // Combines the charges of blocks that are always executed together.
  void merge_charges();

  // Inserts the charges into the function. The last call.
  void insert();

 private:
  // Statements of one block up to a boundary or the end of the block.
  struct Segment {
    gimple* after;  // the boundary before it; NULL at the start of the block
    Units cost;
  };
  struct Block {
    std::vector<Segment> segments;
    bool ends_in_boundary = false;  // nothing can be charged after its last statement
    bool has_moves = false;         // it has a statement with units_of_move()
    bool has_no_boundary() const { return segments.size() == 1 && !ends_in_boundary; }
    Units& head() { return segments.front().cost; }
    Units& tail() { return segments.back().cost; }
  };
  // A charge at the entry of a loop.
  struct Entry {
    edge preheader;
    tree units;
  };

  Block& at(basic_block b) { return blocks_[static_cast<std::size_t>(b->index)]; }
  void split_into_segments(basic_block b);
  void charge_idle_loop(class loop* l);
  bool charge_at_entry(class loop* l);
  bool add_up(class loop* l, Units* iteration, Units* until_exit);
  void hoist_from_successors(basic_block b);
  void move_to_dominator(basic_block b);
  bool charges_at_end(basic_block b);
  void move_to_predecessors(basic_block b);
  bool boundary_between(basic_block from, basic_block to);
  void insert_moves(basic_block b);
  // Subtracts `units`, a constant or a value of type long, from the budget.
  gasm* charge_of(tree units) const;

  function* function_;
  const char* const charge_;  // the assembly of a charge
  const Checks checks_;
  std::vector<Block> blocks_;      // by index
  std::vector<bool> is_constant_;  // by number of a loop: its cost is constant and part of its preheader's
  std::vector<Entry> entries_;
};

}  // namespace braid::charge
