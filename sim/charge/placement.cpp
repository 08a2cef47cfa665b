#include "sim/charge/placement.h"

#include "sim/charge/charge_code.h"

namespace braid::charge {
namespace {

// The largest cost of a loop that is charged with the code before it: at a page fault inside the loop the
// clock is at most this much ahead. A few percent of the cost of a message (some 9,000 cycles on Alewife).
constexpr Units kMaxAhead = 500;

tree constant(Units value) {
  return build_int_cst(long_integer_type_node, value);
}

// As kCharge, but nothing is pushed: a page of a shared stack may not be there, and what is written to it is sent to others.
constexpr const char* kChargeOnSharedStack =
    "subq %0, braid_budget(%%rip)\n"
    "\tjs 771f\n"
    "772:\n"
    "\t.subsection 1\n"
    "771:\tmovq %%rax, %%fs:braid_spent_stack@tpoff+24\n"
    "\tleaq 772b(%%rip), %%rax\n"
    "\tjmp braid_budget_spent_at\n"
    "\t.previous";

}  // namespace

Placement::Placement(function* f, Stacks stacks, Checks checks)
    : function_(f),
      charge_(stacks == Stacks::kShared ? kChargeOnSharedStack : kCharge),
      checks_(checks),
      blocks_(static_cast<std::size_t>(last_basic_block_for_fn(f))),
      is_constant_(number_of_loops(f)) {
  basic_block b;
  FOR_EACH_BB_FN(b, f) split_into_segments(b);
  for (class loop* l : loops_list(f, 0)) charge_idle_loop(l);
}

void Placement::split_into_segments(basic_block b) {
  Block& block = at(b);
  block.segments.push_back({NULL, 0});
  for (gimple_stmt_iterator i = gsi_start_nondebug_bb(b); !gsi_end_p(i); gsi_next_nondebug(&i)) {
    gimple* const s = gsi_stmt(i);
    block.tail() += cost_of(s);
    block.has_moves = block.has_moves || units_of_move(s) != NULL_TREE;
    if (!is_boundary(s)) continue;
    if (stmt_ends_bb_p(s)) {
      block.ends_in_boundary = true;
    } else {
      block.segments.push_back({s, 0});
    }
  }
}

// An empty loop that waits for another node must advance the clock, or the other node never runs.
void Placement::charge_idle_loop(class loop* l) {
  basic_block* const body = get_loop_body(l);
  const bool idle = std::all_of(body, body + l->num_nodes, [this](basic_block b) {
    return at(b).has_no_boundary() && at(b).head() == 0 && !at(b).has_moves;
  });
  free(body);
  if (idle) at(l->header).head() = kJump;
}

void Placement::charge_loops_at_entry() {
  for (class loop* l : loops_list(function_, LI_FROM_INNERMOST))
    is_constant_[static_cast<std::size_t>(l->num)] = charge_at_entry(l);
}

// Returns true if the whole cost of the loop is now part of its preheader's.
bool Placement::charge_at_entry(class loop* l) {
  Units iteration = 0;
  Units until_exit = 0;
  if (!add_up(l, &iteration, &until_exit)) return false;
  tree const latches = number_of_latch_executions(l);
  if (latches == NULL_TREE || latches == chrec_dont_know || !INTEGRAL_TYPE_P(TREE_TYPE(latches)) ||
      expression_expensive_p(latches))
    return false;
  const edge preheader = loop_preheader_edge(l);
  const bool known = tree_fits_shwi_p(latches) && tree_to_shwi(latches) < kMaxAhead &&
                     tree_to_shwi(latches) * iteration + until_exit < kMaxAhead;
  if (known) {
    at(preheader->src).tail() += tree_to_shwi(latches) * iteration + until_exit;
  } else {
    if (l->inner != NULL) return false;  // its cost may be too large for one charge
    tree const type = long_integer_type_node;
    tree const all =
        fold_build2(MULT_EXPR, type, fold_convert(type, unshare_expr(latches)), constant(iteration));
    entries_.push_back({preheader, fold_build2(PLUS_EXPR, type, all, constant(until_exit))});
  }
  basic_block* const body = get_loop_body(l);
  for (unsigned i = 0; i < l->num_nodes; ++i) at(body[i]).head() = 0;
  free(body);
  return known;
}

// Computes the cost of one iteration, and of the last one, from the header to the exit. Returns false if
// iterations differ in cost.
bool Placement::add_up(class loop* l, Units* iteration, Units* until_exit) {
  const edge exit = single_exit(l);
  if (exit == NULL || exit->src->loop_father != l || at(loop_preheader_edge(l)->src).ends_in_boundary)
    return false;
  for (class loop* inner = l->inner; inner != NULL; inner = inner->next)
    if (!is_constant_[static_cast<std::size_t>(inner->num)]) return false;
  basic_block* const body = get_loop_body(l);
  bool same = true;
  for (unsigned i = 0; i < l->num_nodes && same; ++i) {
    basic_block const b = body[i];
    if (b->loop_father != l) continue;
    same = at(b).has_no_boundary() && !at(b).has_moves && dominated_by_p(CDI_DOMINATORS, l->latch, b);
    *iteration += at(b).head();
    if (dominated_by_p(CDI_DOMINATORS, exit->src, b)) *until_exit += at(b).head();
  }
  free(body);
  return same && *iteration > 0;
}

void Placement::merge_charges() {
  std::vector<int> order(static_cast<std::size_t>(n_basic_blocks_for_fn(function_)));
  const int n = pre_and_rev_post_order_compute_fn(function_, NULL, order.data(), false);
  // From the end to the start: a cost that moved up to a block can move on from there.
  for (int i = n; i-- > 0;) {
    basic_block const b = BASIC_BLOCK_FOR_FN(function_, order[static_cast<std::size_t>(i)]);
    hoist_from_successors(b);
    move_to_dominator(b);
    move_to_predecessors(b);
  }
}

// Exactly one successor is executed next, so the smallest of their costs can be charged in this block.
void Placement::hoist_from_successors(basic_block b) {
  if (at(b).ends_in_boundary || EDGE_COUNT(b->succs) < 2) return;
  Units least = HOST_WIDE_INT_MAX;
  edge e;
  edge_iterator i;
  FOR_EACH_EDGE(e, i, b->succs) {
    if (!single_pred_p(e->dest) || e->dest->index < NUM_FIXED_BLOCKS) return;
    least = std::min(least, at(e->dest).head());
  }
  at(b).tail() += least;
  FOR_EACH_EDGE(e, i, b->succs) at(e->dest).head() -= least;
}

// For a block that is executed exactly as often as its dominator, without a boundary between the two.
void Placement::move_to_dominator(basic_block b) {
  basic_block const above = get_immediate_dominator(CDI_DOMINATORS, b);
  if (at(b).head() == 0 || above == NULL || above->index < NUM_FIXED_BLOCKS ||
      above->loop_father != b->loop_father || !dominated_by_p(CDI_POST_DOMINATORS, above, b) ||
      at(above).ends_in_boundary || boundary_between(above, b))
    return;
  at(above).tail() += at(b).head();
  at(b).head() = 0;
}

// Whether a charge at the end of the block costs no further instruction: the block has a charge there, or its
// predecessor will charge what all of its successors have in common.
bool Placement::charges_at_end(basic_block b) {
  if (at(b).tail() != 0) return true;
  if (!at(b).has_no_boundary() || !single_pred_p(b) || at(single_pred(b)).ends_in_boundary) return false;
  edge e;
  edge_iterator i;
  FOR_EACH_EDGE(e, i, single_pred(b)->succs) {
    if (e->dest != b &&
        (!single_pred_p(e->dest) || e->dest->index < NUM_FIXED_BLOCKS || at(e->dest).head() == 0))
      return false;
  }
  return true;
}

// Where paths join and one of them has a charge anyway, the cost of the block is charged on each path before.
void Placement::move_to_predecessors(basic_block b) {
  if (at(b).head() == 0 || EDGE_COUNT(b->preds) < 2 || bb_loop_header_p(b)) return;
  bool shared = false;
  edge e;
  edge_iterator i;
  FOR_EACH_EDGE(e, i, b->preds) {
    if (!single_succ_p(e->src) || e->src->index < NUM_FIXED_BLOCKS || at(e->src).ends_in_boundary) return;
    shared = shared || charges_at_end(e->src);
  }
  if (!shared) return;
  FOR_EACH_EDGE(e, i, b->preds) at(e->src).tail() += at(b).head();
  at(b).head() = 0;
}

bool Placement::boundary_between(basic_block from, basic_block to) {
  std::vector<basic_block> open{to};
  std::vector<bool> seen(blocks_.size());
  seen[static_cast<std::size_t>(from->index)] = true;
  while (!open.empty()) {
    basic_block const b = open.back();
    open.pop_back();
    edge e;
    edge_iterator i;
    FOR_EACH_EDGE(e, i, b->preds) {
      const std::size_t before = static_cast<std::size_t>(e->src->index);
      if (seen[before]) continue;
      seen[before] = true;
      if (!at(e->src).has_no_boundary()) return true;
      open.push_back(e->src);
    }
  }
  return false;
}

// In assembly, because the compiler
// could keep a variable in a register, and the handler of a page fault would then read an old count. Only the flags are clobbered:
// braid_budget_spent preserves every register, and other nodes' writes to memory need synchronisation anyway.
gasm* Placement::charge_of(tree units) const {
  vec<tree, va_gc>* inputs = NULL;
  vec_safe_push(inputs, build_tree_list(build_tree_list(NULL_TREE, build_string(3, "er")), units));
  vec<tree, va_gc>* clobbers = NULL;
  vec_safe_push(clobbers, build_tree_list(NULL_TREE, build_string(3, "cc")));
  if (checks_ == Checks::kFollow)
    vec_safe_push(clobbers, build_tree_list(NULL_TREE, build_string(7, "memory")));
  gasm* const s = gimple_build_asm_vec(charge_, inputs, NULL, clobbers, NULL);
  gimple_asm_set_volatile(s, true);
  gimple_asm_set_inline(s, true);  // its size is estimated as two instructions, not by its lines
  return s;
}

void Placement::insert() {
  basic_block b;
  FOR_EACH_BB_FN(b, function_) {
    insert_moves(b);
    for (const Segment& segment : at(b).segments) {
      if (segment.cost == 0) continue;
      if (segment.after == NULL) {
        gimple_stmt_iterator i = gsi_after_labels(b);
        gsi_insert_before(&i, charge_of(constant(segment.cost)), GSI_NEW_STMT);
      } else {
        gimple_stmt_iterator i = gsi_for_stmt(segment.after);
        gsi_insert_after(&i, charge_of(constant(segment.cost)), GSI_NEW_STMT);
      }
    }
  }
  for (const Entry& entry : entries_) {
    gimple_seq before = NULL;
    tree const value = force_gimple_operand(entry.units, &before, true, NULL_TREE);
    gimple_seq_add_stmt(&before, charge_of(value));
    // A preheader has one successor, so no block is created.
    basic_block const made = gsi_insert_seq_on_edge_immediate(entry.preheader, before);
    gcc_assert(made == NULL);
  }
}

void Placement::insert_moves(basic_block b) {
  if (!at(b).has_moves) return;
  for (gimple_stmt_iterator i = gsi_start_bb(b); !gsi_end_p(i); gsi_next(&i)) {
    tree const units = units_of_move(gsi_stmt(i));
    if (units == NULL_TREE) continue;
    tree const value = force_gimple_operand_gsi(&i, units, true, NULL_TREE, true, GSI_SAME_STMT);
    gsi_insert_before(&i, charge_of(value), GSI_SAME_STMT);
  }
}

}  // namespace braid::charge
