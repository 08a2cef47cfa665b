// Where a function's costs are charged. What must hold: at every boundary (cost_table.h), and when the function
// is left, the sum of all charges made so far is that of the statements that were executed before. In between
// a charge may be made early; the fewer charges there are, the faster the program.
//
// Part of the compiler plug-in.
#pragma once

#include "sim/charge/cost_table.h"

namespace braid::charge {

class Placement {
 public:
  // Each segment is charged where it begins. Loops and dominators are known, until after insert().
  explicit Placement(function* f);

  // Loops of which it is known at their entry how often they go around are charged there, so that they can be
  // vectorised.
  void charge_loops_at_entry();

  // Charges of blocks that are executed together are made once.
  void gather();

  // Puts the charges into the function. Last.
  void insert();

 private:
  // A run of statements of one block with a boundary at its end, or the block's end.
  struct Segment {
    gimple* after;  // the boundary before it; NULL where the block begins
    Units cost;
  };
  struct Block {
    std::vector<Segment> segments;
    bool sealed = false;  // its last statement is a boundary: nothing can be charged after it
    bool moves = false;   // units_of_move() of a statement of it
    bool passed_through() const { return segments.size() == 1 && !sealed; }
    Units& head() { return segments.front().cost; }
    Units& tail() { return segments.back().cost; }
  };
  struct Entry {
    edge preheader;
    tree units;
  };

  Block& at(basic_block b) { return blocks_[static_cast<std::size_t>(b->index)]; }
  void divide(basic_block b);
  void charge_idle_loop(class loop* l);
  bool charge_at_entry(class loop* l);
  bool add_up(class loop* l, Units* iteration, Units* until_exit);
  void take_from_successors(basic_block b);
  void give_to_dominator(basic_block b);
  bool pays_anyway(basic_block b);
  void give_to_predecessors(basic_block b);
  bool boundary_between(basic_block from, basic_block to);
  void insert_moves(basic_block b);

  function* function_;
  std::vector<Block> blocks_;  // by index
  std::vector<bool> known_;    // loops, by number, that are part of their preheader's cost
  std::vector<Entry> entries_;
};

}  // namespace braid::charge
