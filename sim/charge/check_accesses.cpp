#include "sim/charge/check_accesses.h"

#include "sim/charge/access_rights.h"
#include "sim/charge/charge_code.h"
#include "sim/charge/cost_table.h"

namespace braid::charge {
namespace {

enum class Access { kRead, kWrite };

// What a processor accesses at once.
constexpr HOST_WIDE_INT kMostOfWord = 64;

// Of a loop that is not worth a second version.
constexpr HOST_WIDE_INT kFewIterations = 8;

// The assembly of a check. %0: the address, and afterwards where the access is made; %1: for the check alone. As with charges
// (placement.cpp), the compiler does not know of the call. It must not move accesses of memory across the check either: another
// compute node may have run. What is refused returns to the check's beginning, which is where a stack trace finds it.
class Text {
 public:
  Text(Access access, HOST_WIDE_INT bytes)
      : table_(access == Access::kWrite ? "%%gs:(,%1,8)" : std::to_string(kReadTable) + "(,%1,8)"),
        refused_(access == Access::kWrite ? "braid_write_refused" : "braid_read_refused"),
        last_(std::to_string(bytes - 1)) {}

  // Of an access that is in one KiB if its address is a multiple of its length, as it usually is.
  std::string of_word() const {
    if (last_ == "0") return "773:\n" + of_first() + cold("");
    return "773:\ttestb $" + last_ +
           ", %b0\n"
           "\tjnz 775f\n"
           "776:\n" +
           of_first() + cold("775:\n" + of_last() + "\tjmp 776b\n" + "774:" + refusal(last_));
  }
  // Of an access that may end in the following KiB.
  std::string of_more() const { return "773:\n" + of_last() + of_first() + cold("774:" + refusal(last_)); }

 private:
  std::string of_first() const {
    return "\tmovq %0, %1\n"
           "\tshrq $" +
           std::to_string(kCheckedShift) +
           ", %1\n"
           "\tsubq " +
           table_ +
           ", %0\n"
           "\tjc 771f\n";
  }
  std::string of_last() const {
    return "\tleaq " + last_ +
           "(%0), %1\n"
           "\tshrq $" +
           std::to_string(kCheckedShift) +
           ", %1\n"
           "\tcmpq $-1, " +
           table_ +
           "\n"
           "\tje 774f\n";
  }
  // Before the check, for a jump back. The byte so far behind the address is closed.
  std::string refusal(const std::string& offset) const {
    return "\tleaq " + offset +
           "(%0), %1\n"
           "\tmovq %1, braid_refused_address(%%rip)\n"
           "\tleaq 773b(%%rip), %1\n"
           "\tpushq %1\n"
           "\tjmp " +
           refused_ + "\n";
  }
  std::string cold(const std::string& more) const {
    return "\t.subsection 1\n"
           "771:\taddq " +
           table_ + ", %0\n" + refusal("0") + more + "\t.previous";
  }

  const std::string table_;
  const char* const refused_;
  const std::string last_;
};

tree operand(const char* constraint, tree value) {
  return build_tree_list(
      build_tree_list(NULL_TREE, build_string(static_cast<int>(std::strlen(constraint)) + 1, constraint)),
      value);
}

gasm* assembly(const char* text, std::initializer_list<tree> outputs, tree input) {
  vec<tree, va_gc>* out = NULL;
  for (tree const output : outputs) vec_safe_push(out, output);
  vec<tree, va_gc>* in = NULL;
  vec_safe_push(in, input);
  vec<tree, va_gc>* clobbers = NULL;
  for (const char* const clobber : {"cc", "memory"})
    vec_safe_push(
        clobbers,
        build_tree_list(NULL_TREE, build_string(static_cast<int>(std::strlen(clobber)) + 1, clobber)));
  gasm* const s = gimple_build_asm_vec(ggc_strdup(text), in, out, clobbers, NULL);
  gimple_asm_set_volatile(s, true);
  gimple_asm_set_inline(s, true);
  return s;
}

// For so many checks: a constant ("i"), or a value ("0").
gasm* charge_of_checks(tree checks, const char* constraint) {
  tree const used = make_ssa_name(long_integer_type_node);
  const std::string text = std::string(*constraint == 'i' ? "imulq %1, braid_check_units(%%rip), %0\n\t"
                                                          : "imulq braid_check_units(%%rip), %0\n\t") +
                           kCharge;
  gasm* const s = assembly(text.c_str(), {operand("=r", used)}, operand(constraint, checks));
  SSA_NAME_DEF_STMT(used) = s;
  return s;
}

// Whether it is memory behind a pointer. Variables are private: programs whose globals or stacks are shared are not checked.
bool may_be_shared(tree reference) {
  if (reference == NULL_TREE || (!REFERENCE_CLASS_P(reference) && !handled_component_p(reference)))
    return false;
  tree const base = get_base_address(reference);
  return base != NULL_TREE && (TREE_CODE(base) == MEM_REF || TREE_CODE(base) == TARGET_MEM_REF) &&
         TREE_CODE(TREE_OPERAND(base, 0)) == SSA_NAME;
}

bool may_be_shared_pointer(tree pointer) {
  return TREE_CODE(pointer) == SSA_NAME;
}

bool is_bit_field(tree reference) {
  return TREE_CODE(reference) == COMPONENT_REF && DECL_BIT_FIELD(TREE_OPERAND(reference, 1));
}

// The same reference, so many bytes further.
tree moved_by(gimple_stmt_iterator* i, tree reference, tree distance) {
  tree result = unshare_expr(reference);
  tree* base = &result;
  while (handled_component_p(*base)) base = &TREE_OPERAND(*base, 0);
  tree const pointer = TREE_OPERAND(*base, 0);
  tree const sum = fold_build2(POINTER_PLUS_EXPR, TREE_TYPE(pointer), pointer, distance);
  TREE_OPERAND(*base, 0) = force_gimple_operand_gsi(i, sum, true, NULL_TREE, true, GSI_SAME_STMT);
  return result;
}

// What is accessed for the sake of `reference`, as whole bytes.
tree bytes_around(tree reference) {
  while (TREE_CODE(reference) == BIT_FIELD_REF || is_bit_field(reference)) {
    tree const object = TREE_OPERAND(reference, 0);
    tree const all =
        is_bit_field(reference) ? DECL_BIT_FIELD_REPRESENTATIVE(TREE_OPERAND(reference, 1)) : NULL_TREE;
    if (all != NULL_TREE) return build3(COMPONENT_REF, TREE_TYPE(all), object, all, NULL_TREE);
    reference = object;
  }
  return reference;
}

// A second version of a loop, without checks, for when all that it accesses is open, or private, at its entry: of innermost loops in
// which no other node can run, because they have neither calls nor charges, and whose number of iterations is known at their
// entry. Their checks are charged there, for both versions.
class OpenLoops {
 public:
  explicit OpenLoops(function* f) : function_(f) {}

  void make() {
    std::vector<Version> versions;
    for (class loop* l : loops_list(function_, LI_ONLY_INNERMOST)) {
      Version version;
      if (analyse(l, &version)) versions.push_back(version);
    }
    if (versions.empty()) return;
    rewrite_into_loop_closed_ssa(NULL, TODO_update_ssa);
    initialize_original_copy_tables();
    for (const Version& version : versions) make(version);
    free_original_copy_tables();
    update_ssa(TODO_update_ssa);
    scev_reset();
  }

  bool is_open(basic_block b) const { return has(open_, b); }
  bool is_charged(basic_block b) const { return has(charged_, b); }

 private:
  struct Part {
    gimple* statement;
    bool is_store;
    tree first;  // address at the first iteration
    HOST_WIDE_INT step;
    HOST_WIDE_INT bytes;
  };
  struct Version {
    class loop* l = NULL;
    tree latches = NULL_TREE;
    std::vector<Part> parts;
    HOST_WIDE_INT checks = 0;      // of an iteration
    HOST_WIDE_INT until_exit = 0;  // of the last
  };
  static constexpr std::size_t kMostParts = 12;

  static bool has(const std::vector<int>& blocks, basic_block b) {
    return std::find(blocks.begin(), blocks.end(), b->index) != blocks.end();
  }

  static bool analyse(class loop* l, Version* v) {
    v->l = l;
    v->latches = number_of_latch_executions(l);
    const edge exit = single_exit(l);
    if (exit == NULL || v->latches == NULL_TREE || v->latches == chrec_dont_know ||
        !INTEGRAL_TYPE_P(TREE_TYPE(v->latches)) || expression_expensive_p(v->latches) ||
        (tree_fits_shwi_p(v->latches) && tree_to_shwi(v->latches) < kFewIterations))
      return false;
    basic_block* const body = get_loop_body(l);
    bool fits = true;
    for (unsigned i = 0; i < l->num_nodes && fits; ++i) {
      const std::size_t before = v->parts.size();
      fits = analyse(l, body[i], v);
      const auto checks = static_cast<HOST_WIDE_INT>(v->parts.size() - before);
      if (checks > 0 && !dominated_by_p(CDI_DOMINATORS, l->latch, body[i])) fits = false;
      v->checks += checks;
      if (dominated_by_p(CDI_DOMINATORS, exit->src, body[i])) v->until_exit += checks;
    }
    free(body);
    return fits && !v->parts.empty() && v->parts.size() <= kMostParts;
  }

  static bool analyse(class loop* l, basic_block b, Version* v) {
    for (gimple_stmt_iterator i = gsi_start_nondebug_bb(b); !gsi_end_p(i); gsi_next_nondebug(&i)) {
      gimple* const s = gsi_stmt(i);
      if (gimple_code(s) == GIMPLE_ASM) return false;
      if (gimple_code(s) == GIMPLE_CALL) {
        if ((gimple_call_flags(s) & ECF_CONST) == 0) return false;
        if (!gimple_call_internal_p(s) && !gimple_call_builtin_p(s, BUILT_IN_NORMAL)) return false;
        if (gimple_vuse(s) != NULL_TREE) return false;
        continue;
      }
      if (gimple_code(s) != GIMPLE_ASSIGN || !gimple_assign_single_p(s) || gimple_clobber_p(s)) continue;
      if (gimple_assign_load_p(s) && may_be_shared(gimple_assign_rhs1(s)) && !add(l, s, false, v))
        return false;
      if (gimple_store_p(s) && may_be_shared(gimple_assign_lhs(s)) && !add(l, s, true, v)) return false;
    }
    return true;
  }

  static bool add(class loop* l, gimple* s, bool is_store, Version* v) {
    tree const reference = is_store ? gimple_assign_lhs(s) : gimple_assign_rhs1(s);
    const HOST_WIDE_INT bytes = int_size_in_bytes(TREE_TYPE(reference));
    innermost_loop_behavior way = {};
    if (bytes_around(reference) != reference || bytes <= 0 ||
        bytes > static_cast<HOST_WIDE_INT>(kCheckedBytes) || !dr_analyze_innermost(&way, reference, l, s) ||
        !tree_fits_shwi_p(way.step))
      return false;
    tree const distance = fold_build2(PLUS_EXPR, ssizetype, fold_convert(ssizetype, way.offset),
                                      fold_convert(ssizetype, way.init));
    tree const first = fold_build_pointer_plus(fold_convert(ptr_type_node, unshare_expr(way.base_address)),
                                               fold_convert(sizetype, distance));
    v->parts.push_back({s, is_store, first, tree_to_shwi(way.step), bytes});
    return true;
  }

  static tree gimplified(gimple_seq* to, tree value) {
    gimple_seq before = NULL;
    tree const result = force_gimple_operand(unshare_expr(value), &before, true, NULL_TREE);
    gimple_seq_add_seq(to, before);
    return result;
  }

  void make(const Version& v) {
    gimple_seq entry = NULL;
    tree const latches = gimplified(&entry, fold_convert(ssizetype, v.latches));
    // Before the tables are looked at, for another node may run.
    tree const checks = fold_build2(
        PLUS_EXPR, ssizetype, fold_build2(MULT_EXPR, ssizetype, latches, build_int_cst(ssizetype, v.checks)),
        build_int_cst(ssizetype, v.until_exit));
    gimple_seq_add_stmt(&entry, charge_of_checks(gimplified(&entry, checks), "0"));
    tree all = NULL_TREE;
    std::vector<tree> distances;
    for (const Part& part : v.parts) {
      tree const extent = fold_build2(MULT_EXPR, ssizetype, latches, build_int_cst(ssizetype, part.step));
      tree const first = gimplified(&entry, part.first);
      tree const until = gimplified(&entry, extent);
      gcall* const look = gimple_build_call(look_up(), 4, first, until, build_int_cst(ssizetype, part.bytes),
                                            build_int_cst(integer_type_node, part.is_store ? 1 : 0));
      tree const distance = make_ssa_name(sizetype);
      gimple_call_set_lhs(look, distance);
      gimple_seq_add_stmt(&entry, look);
      distances.push_back(gimplified(&entry, fold_build1(NEGATE_EXPR, sizetype, distance)));
      all = all == NULL_TREE ? distance
                             : gimplified(&entry, fold_build2(BIT_IOR_EXPR, sizetype, all, distance));
    }
    basic_block const made = gsi_insert_seq_on_edge_immediate(loop_preheader_edge(v.l), entry);
    gcc_assert(made == NULL);
    basic_block condition;
    class loop* const checked =
        loop_version(v.l, build2(NE_EXPR, boolean_type_node, all, build_all_ones_cst(sizetype)), &condition,
                     profile_probability::likely(), profile_probability::unlikely(),
                     profile_probability::likely(), profile_probability::unlikely(), true);
    note(v.l, checked == NULL ? &charged_ : &open_);
    if (checked == NULL) return;
    note(checked, &charged_);
    for (std::size_t i = 0; i < v.parts.size(); ++i) move(v.parts[i], distances[i]);
  }

  static void note(class loop* l, std::vector<int>* to) {
    basic_block* const body = get_loop_body(l);
    for (unsigned i = 0; i < l->num_nodes; ++i) to->push_back(body[i]->index);
    free(body);
  }

  static void move(const Part& part, tree distance) {
    gimple_stmt_iterator i = gsi_for_stmt(part.statement);
    tree const reference =
        part.is_store ? gimple_assign_lhs(part.statement) : gimple_assign_rhs1(part.statement);
    tree const result = moved_by(&i, reference, distance);
    if (part.is_store)
      gimple_assign_set_lhs(part.statement, result);
    else
      gimple_assign_set_rhs1(part.statement, result);
    update_stmt(part.statement);
  }

  // Of access_checks.cpp.
  static tree look_up() {
    tree const type =
        build_function_type_list(sizetype, ptr_type_node, ssizetype, ssizetype, integer_type_node, NULL_TREE);
    tree const decl = build_fn_decl("braid_distance_of_loop", type);
    TREE_NOTHROW(decl) = 1;
    DECL_PURE_P(decl) = 1;
    return decl;
  }

  // By index.
  std::vector<int> open_;
  std::vector<int> charged_;
  function* const function_;
};

class Checks {
 public:
  Checks(function* f, const OpenLoops& loops) : function_(f), loops_(loops) {}

  void insert() {
    basic_block b;
    std::vector<basic_block> blocks;
    FOR_EACH_BB_FN(b, function_) blocks.push_back(b);
    for (basic_block const block : blocks)
      if (!loops_.is_open(block)) insert(block);
  }

 private:
  void insert(basic_block b) {
    gimple* after = NULL;
    checks_ = 0;
    for (gimple_stmt_iterator i = gsi_start_nondebug_bb(b); !gsi_end_p(i); gsi_next_nondebug(&i)) {
      gimple* const s = gsi_stmt(i);
      const bool ends_part = gimple_code(s) == GIMPLE_CALL && is_boundary(s);
      if (gassign* const a = dyn_cast<gassign*>(s)) check(a, &i);
      if (gcall* const c = dyn_cast<gcall*>(s)) check(c, &i);
      if (const gasm* const a = dyn_cast<const gasm*>(s)) refuse_shared_operands(a);
      if (!ends_part) continue;
      charge(b, after);
      after = s;
    }
    charge(b, after);
  }

  // The checks since then.
  void charge(basic_block b, gimple* after) {
    if (checks_ == 0 || loops_.is_charged(b)) {
      checks_ = 0;
      return;
    }
    gasm* const s = charge_of_checks(build_int_cst(long_integer_type_node, checks_), "i");
    gimple_stmt_iterator i = after == NULL ? gsi_after_labels(b) : gsi_for_stmt(after);
    if (after == NULL)
      gsi_insert_before(&i, s, GSI_SAME_STMT);
    else
      gsi_insert_after(&i, s, GSI_SAME_STMT);
    checks_ = 0;
  }

  // Returns where to access what `address` points to. `bytes` is at most kCheckedBytes.
  tree checked_address(gimple_stmt_iterator* i, tree address, HOST_WIDE_INT bytes, Access access) {
    ++checks_;
    tree const place = make_ssa_name(ptr_type_node);
    tree const scratch = make_ssa_name(ptr_type_node);
    const Text check(access, bytes);
    const std::string text = pow2p_hwi(bytes) && bytes <= kMostOfWord ? check.of_word() : check.of_more();
    gasm* const s =
        assembly(text.c_str(), {operand("=r", place), operand("=&r", scratch)}, operand("0", address));
    SSA_NAME_DEF_STMT(place) = s;
    SSA_NAME_DEF_STMT(scratch) = s;
    gimple_set_location(s, gimple_location(gsi_stmt(*i)));
    gsi_insert_before(i, s, GSI_SAME_STMT);
    return place;
  }

  tree address_of(gimple_stmt_iterator* i, tree reference) {
    tree const address = fold_convert(ptr_type_node, build_fold_addr_expr(unshare_expr(reference)));
    return force_gimple_operand_gsi(i, address, true, NULL_TREE, true, GSI_SAME_STMT);
  }

  // Inserts a check before the statement; returns the reference to use, or NULL_TREE: the access is left as it is.
  tree checked(gimple_stmt_iterator* i, tree reference, Access access) {
    tree const around = bytes_around(reference);
    tree const type = TREE_TYPE(around);
    const HOST_WIDE_INT bytes = int_size_in_bytes(type);
    if (bytes <= 0 || bytes > static_cast<HOST_WIDE_INT>(kCheckedBytes)) return NULL_TREE;
    const unsigned alignment = get_object_alignment(around);
    tree const address = address_of(i, around);
    tree const place = checked_address(i, address, bytes, access);
    if (around != reference || reverse_storage_order_for_component_p(reference))
      return moved(i, reference, address, place);
    tree const of_place = alignment < TYPE_ALIGN(type) ? build_aligned_type(type, alignment) : type;
    tree const result =
        build2(MEM_REF, of_place, place, build_int_cst(reference_alias_ptr_type(reference), 0));
    TREE_THIS_VOLATILE(result) = TREE_THIS_VOLATILE(reference);
    TREE_SIDE_EFFECTS(result) = TREE_SIDE_EFFECTS(reference);
    return result;
  }

  // The same reference, as far away as `place` is from `address`.
  static tree moved(gimple_stmt_iterator* i, tree reference, tree address, tree place) {
    return moved_by(
        i, reference,
        fold_convert(sizetype, fold_build2(POINTER_DIFF_EXPR, ptrdiff_type_node, place, address)));
  }

  // A private variable that takes what is accessed on the way, or NULL_TREE where there can be none.
  static tree variable_for(tree type) {
    const HOST_WIDE_INT bytes = int_size_in_bytes(type);
    if (TREE_ADDRESSABLE(type) || bytes <= 0 || bytes > static_cast<HOST_WIDE_INT>(kCheckedBytes))
      return NULL_TREE;
    if (is_gimple_reg_type(type)) return make_ssa_name(TYPE_MAIN_VARIANT(type));
    return create_tmp_var(TYPE_MAIN_VARIANT(type), "braid");
  }

  // Reads into a variable before the statement.
  tree read_before(gimple_stmt_iterator* i, tree reference) {
    tree const variable = variable_for(TREE_TYPE(reference));
    if (variable == NULL_TREE) return NULL_TREE;
    tree const from = checked(i, reference, Access::kRead);
    if (from == NULL_TREE) return NULL_TREE;
    gsi_insert_before(i, gimple_build_assign(variable, from), GSI_SAME_STMT);
    return variable;
  }

  void check(gassign* s, gimple_stmt_iterator* i) {
    if (gimple_clobber_p(s) || !gimple_assign_single_p(s)) return;
    const bool loads = gimple_assign_load_p(s) && may_be_shared(gimple_assign_rhs1(s));
    const bool stores = gimple_store_p(s) && may_be_shared(gimple_assign_lhs(s));
    if (loads && stores) {
      // Both would have to be open at once.
      tree const value = read_before(i, gimple_assign_rhs1(s));
      if (value == NULL_TREE) return;
      gimple_assign_set_rhs1(s, value);
    } else if (loads) {
      tree const from = checked(i, gimple_assign_rhs1(s), Access::kRead);
      if (from == NULL_TREE) return;
      gimple_assign_set_rhs1(s, from);
    }
    if (stores) {
      if (tree const to = checked(i, gimple_assign_lhs(s), Access::kWrite)) gimple_assign_set_lhs(s, to);
    }
    if (loads || stores) update_stmt(s);
  }

  void check(gcall* s, gimple_stmt_iterator* i) {
    if (gimple_call_internal_p(s)) return;
    if (gimple_call_builtin_p(s, BUILT_IN_NORMAL) && check_builtin(s, i)) return;
    bool changed = false;
    for (unsigned n = 0; n < gimple_call_num_args(s); ++n) {
      tree const argument = gimple_call_arg(s, n);
      if (!may_be_shared(argument)) continue;
      tree const value = read_before(i, argument);
      if (value == NULL_TREE) continue;
      gimple_call_set_arg(s, n, value);
      changed = true;
    }
    if (store_result(s, i)) changed = true;
    if (changed) update_stmt(s);
  }

  // The callee's result goes to a variable, and from there to memory. (What is constructed in place is checked in the callee.)
  bool store_result(gcall* s, gimple_stmt_iterator* i) {
    tree const to = gimple_call_lhs(s);
    if (to == NULL_TREE || !may_be_shared(to)) return false;
    tree const variable = variable_for(TREE_TYPE(to));
    if (variable == NULL_TREE) return false;
    gimple_call_set_lhs(s, variable);
    if (TREE_CODE(variable) == SSA_NAME) SSA_NAME_DEF_STMT(variable) = s;
    gassign* const store = gimple_build_assign(to, variable);
    gimple_set_location(store, gimple_location(s));
    gimple_stmt_iterator at = *i;
    if (stmt_ends_bb_p(s)) {
      const edge normal = find_fallthru_edge(gimple_bb(s)->succs);
      if (normal == NULL) return true;
      // In a block of its own, which insert() does not come to.
      at = gsi_after_labels(split_edge(normal));
      gsi_insert_before(&at, store, GSI_SAME_STMT);
      at = gsi_for_stmt(store);
      check(store, &at);
      return true;
    }
    gsi_insert_after(&at, store, GSI_SAME_STMT);
    return true;  // the caller comes to it
  }

  // Returns whether nothing is left to do.
  bool check_builtin(gcall* s, gimple_stmt_iterator* i) {
    const built_in_function f = DECL_FUNCTION_CODE(gimple_call_fndecl(s));
    switch (f) {
      case BUILT_IN_MEMCPY:
        return redirect(s, "braid_checked_memcpy", 2);
      case BUILT_IN_MEMMOVE:
        return redirect(s, "braid_checked_memmove", 2);
      case BUILT_IN_MEMSET:
        return redirect(s, "braid_checked_memset", 1);
      case BUILT_IN_MEMCMP:
      case BUILT_IN_MEMCMP_EQ:
        return redirect(s, "braid_checked_memcmp", 2);
      default:
        break;
    }
    const HOST_WIDE_INT bytes = bytes_of_atomic(f);
    if (bytes == 0 || !may_be_shared_pointer(gimple_call_arg(s, 0))) return false;
    const bool loads = f >= BUILT_IN_ATOMIC_LOAD_1 && f <= BUILT_IN_ATOMIC_LOAD_16;
    tree const address = force_gimple_operand_gsi(i, fold_convert(ptr_type_node, gimple_call_arg(s, 0)), true,
                                                  NULL_TREE, true, GSI_SAME_STMT);
    tree const place = checked_address(i, address, bytes, loads ? Access::kRead : Access::kWrite);
    gimple_call_set_arg(s, 0, place);
    update_stmt(s);
    return false;  // its result is left
  }

  bool redirect(gcall* s, const char* name, unsigned pointers) {
    bool shared = false;
    for (unsigned n = 0; n < pointers; ++n) shared = shared || may_be_shared_pointer(gimple_call_arg(s, n));
    if (!shared) return false;
    checks_ += pointers;
    tree const decl = build_fn_decl(name, TREE_TYPE(gimple_call_fndecl(s)));
    TREE_NOTHROW(decl) = 1;
    gimple_call_set_fndecl(s, decl);
    update_stmt(s);
    return false;
  }

  static HOST_WIDE_INT bytes_of_atomic(built_in_function f) {
#define BRAID_OF(name) \
  case name##_1:       \
    return 1;          \
  case name##_2:       \
    return 2;          \
  case name##_4:       \
    return 4;          \
  case name##_8:       \
    return 8;          \
  case name##_16:      \
    return 16;
    switch (f) {
      BRAID_OF(BUILT_IN_ATOMIC_LOAD)
      BRAID_OF(BUILT_IN_ATOMIC_STORE)
      BRAID_OF(BUILT_IN_ATOMIC_EXCHANGE)
      BRAID_OF(BUILT_IN_ATOMIC_COMPARE_EXCHANGE)
      BRAID_OF(BUILT_IN_ATOMIC_FETCH_ADD)
      BRAID_OF(BUILT_IN_ATOMIC_FETCH_SUB)
      BRAID_OF(BUILT_IN_ATOMIC_FETCH_AND)
      BRAID_OF(BUILT_IN_ATOMIC_FETCH_OR)
      BRAID_OF(BUILT_IN_ATOMIC_FETCH_XOR)
      BRAID_OF(BUILT_IN_ATOMIC_FETCH_NAND)
      BRAID_OF(BUILT_IN_ATOMIC_ADD_FETCH)
      BRAID_OF(BUILT_IN_ATOMIC_SUB_FETCH)
      BRAID_OF(BUILT_IN_ATOMIC_AND_FETCH)
      BRAID_OF(BUILT_IN_ATOMIC_OR_FETCH)
      BRAID_OF(BUILT_IN_ATOMIC_XOR_FETCH)
      BRAID_OF(BUILT_IN_ATOMIC_NAND_FETCH)
      BRAID_OF(BUILT_IN_SYNC_FETCH_AND_ADD)
      BRAID_OF(BUILT_IN_SYNC_FETCH_AND_SUB)
      BRAID_OF(BUILT_IN_SYNC_ADD_AND_FETCH)
      BRAID_OF(BUILT_IN_SYNC_SUB_AND_FETCH)
      BRAID_OF(BUILT_IN_SYNC_BOOL_COMPARE_AND_SWAP)
      BRAID_OF(BUILT_IN_SYNC_VAL_COMPARE_AND_SWAP)
      BRAID_OF(BUILT_IN_SYNC_LOCK_TEST_AND_SET)
      BRAID_OF(BUILT_IN_SYNC_LOCK_RELEASE)
      default:
        return 0;
    }
#undef BRAID_OF
  }

  static void refuse_shared_operands(const gasm* s) {
    bool is_refused = false;
    const auto refuse = [&](tree value) {
      if (!std::exchange(is_refused, is_refused || may_be_shared(TREE_VALUE(value))) && is_refused)
        error_at(
            gimple_location(s),
            "inline assembly with an operand in memory that may be shared cannot be checked: load it into a register "
            "before, or take pages of 4096 bytes or more, which need no checks");
    };
    for (unsigned n = 0; n < gimple_asm_noutputs(s); ++n) refuse(gimple_asm_output_op(s, n));
    for (unsigned n = 0; n < gimple_asm_ninputs(s); ++n) refuse(gimple_asm_input_op(s, n));
  }

  function* const function_;
  const OpenLoops& loops_;
  HOST_WIDE_INT checks_ = 0;  // since the last boundary
};

}  // namespace

void check_accesses(function* f) {
  OpenLoops loops(f);
  loops.make();
  Checks(f, loops).insert();
}

}  // namespace braid::charge
