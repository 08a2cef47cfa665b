// A GCC plug-in for what pthread programs and PARMACS ones do about order without calling anybody. The compiler's own atomics become
// calls (atomics.cpp) without it.
//
// With the argument `parmacs` it only changes volatile accesses, in files that include the header of the PARMACS macros.
//
// Atomic instructions in inline assembly are atomic in their own cluster's copy of a page alone. Of x86: an instruction with the
// prefix lock, and xchg with memory, which has it always. A statement with one has a call on each side (atomics.cpp), which take
// and free the lock of the address. It is refused where the address cannot be told, and where it may wait for others by a loop,
// for they need the lock. Code often orders its accesses by one whose operand is the top of the stack; that stays.
// A volatile statement that only moves a number from or to memory is as a volatile access.
//
// Functions of the C library's header that use a stream's fields are called.
//
// Thread-local variables are made as for systems that have none: GCC asks for the address of each by a call (thread_variables.cpp), so that they
// are in shared memory. Those that libraries define, by their headers, stay the system's.
//
// Threads wait for volatile variables that others write. Calls (atomics.cpp, dsm/parmacs/volatiles.cpp) see to it that the one comes to see the other, and
// what was written before it: a write of a number or a pointer becomes a call, a read of one has a call behind it, and any other
// volatile access has one on each side.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// GCC's own headers, in the order that they require, after those of the standard library.
#include <gcc-plugin.h>

#include <tree.h>

#include <basic-block.h>
#include <gimple.h>
#include <ssa.h>

#include <cgraph.h>
#include <context.h>
#include <diagnostic-core.h>
#include <fold-const.h>
#include <gimple-iterator.h>
#include <gimplify-me.h>
#include <gimplify.h>
#include <plugin-version.h>
#include <target.h>
#include <tree-cfg.h>
#include <tree-pass.h>

// GCC loads no plug-in without it. The project's licence, Apache 2.0, is compatible with GCC's, GPL 3.
int plugin_is_GPL_compatible;

namespace braid::dsm::pthreads {
namespace {

constexpr const char* kBlank = " \t";
constexpr std::string_view kParmacsHeader = "dsm/parmacs/parmacs.h";

// Whether this file's volatile accesses are changed.
bool changes_volatile_accesses = true;

// The instructions of an assembly template, without labels, in lower case.
std::vector<std::string> instructions_of(const char* text) {
  std::vector<std::string> all(1);
  for (const char* c = text; *c != '\0'; ++c) {
    if (*c == '\n' || *c == ';')
      all.emplace_back();
    else if (*c == ':')
      all.back().clear();
    else
      all.back() += *c >= 'A' && *c <= 'Z' ? static_cast<char>(*c - 'A' + 'a') : *c;
  }
  for (std::string& one : all) one.erase(0, std::min(one.find_first_not_of(kBlank), one.size()));
  std::erase_if(all, [](const std::string& one) { return one.empty(); });
  return all;
}

std::string_view first_word(std::string_view text) {
  return text.substr(0, text.find_first_of(kBlank));
}

std::string_view after_first_word(std::string_view text) {
  text.remove_prefix(first_word(text).size());
  text.remove_prefix(std::min(text.find_first_not_of(kBlank), text.size()));
  return text;
}

bool is_at_stack_pointer(std::string_view instruction) {
  return instruction.find("sp)") != std::string_view::npos;
}

// The operands as the template counts them: outputs, then inputs.
tree operand_link(const gasm* assembly, unsigned number) {
  const unsigned outputs = gimple_asm_noutputs(assembly);
  if (number < outputs) return gimple_asm_output_op(assembly, number);
  return number - outputs < gimple_asm_ninputs(assembly) ? gimple_asm_input_op(assembly, number - outputs)
                                                         : NULL_TREE;
}

const char* constraint_of(tree link) {
  return TREE_STRING_POINTER(TREE_VALUE(TREE_PURPOSE(link)));
}

bool is_in_memory(tree link) {
  return std::strpbrk(constraint_of(link), "moVgX") != nullptr && !is_gimple_reg(TREE_VALUE(link));
}

// What a register has when the assembly begins: an input, or the input that shares an output's register. NULL_TREE: nothing.
tree value_at_begin(const gasm* assembly, unsigned number) {
  if (number >= gimple_asm_noutputs(assembly)) return TREE_VALUE(operand_link(assembly, number));
  for (unsigned i = 0; i < gimple_asm_ninputs(assembly); ++i) {
    tree const link = gimple_asm_input_op(assembly, i);
    if (constraint_of(link) == std::to_string(number)) return TREE_VALUE(link);
  }
  return NULL_TREE;
}

// A reference to an operand in an instruction, as %1 or %b1.
struct Reference {
  std::size_t begin;  // of the sign
  std::size_t end;
  unsigned number;
};
std::vector<Reference> references_in(std::string_view text) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  std::vector<Reference> all;
  for (std::size_t i = 0; i + 1 < text.size(); ++i) {
    if (text[i] != '%') continue;
    std::size_t at = i + 1;
    if (text[at] >= 'a' && text[at] <= 'z' && at + 1 < text.size() && is_digit(text[at + 1])) ++at;
    if (is_digit(text[at])) {
      Reference one{i, at, 0};
      for (; one.end < text.size() && is_digit(text[one.end]); ++one.end)
        one.number = 10 * one.number + static_cast<unsigned>(text[one.end] - '0');
      all.push_back(one);
      i = one.end - 1;
    } else {
      i = at;  // %%: a register, or the sign itself
    }
  }
  return all;
}

struct LockedMemory {
  enum class Is { kNone, kOperand, kAtRegister, kUnknown } is = Is::kNone;
  unsigned operand = 0;
  long displacement = 0;  // from what the register has
  bool operator==(const LockedMemory&) const = default;
};

// The memory that an instruction uses.
LockedMemory memory_of(const gasm* assembly, std::string_view instruction) {
  using Is = LockedMemory::Is;
  const std::vector<Reference> references = references_in(instruction);
  const std::size_t open = instruction.find('(');
  for (const Reference& one : references) {
    tree const link = operand_link(assembly, one.number);
    if (link == NULL_TREE) return {.is = Is::kUnknown};
    if (open != std::string_view::npos) {
      if (one.begin != open + 1) continue;
      const std::size_t from = instruction.substr(0, open).find_last_of(" \t,");
      const std::string displacement(
          instruction.substr(from == std::string_view::npos ? 0 : from + 1,
                             open - (from == std::string_view::npos ? 0 : from + 1)));
      char* end = nullptr;
      const long bytes = std::strtol(displacement.c_str(), &end, 0);
      if (*end != '\0' || one.end >= instruction.size() || instruction[one.end] != ')' ||
          value_at_begin(assembly, one.number) == NULL_TREE)
        return {.is = Is::kUnknown};
      return {Is::kAtRegister, one.number, bytes};
    }
    if (is_in_memory(link)) return {Is::kOperand, one.number, 0};
  }
  return {.is = open == std::string_view::npos ? Is::kNone : Is::kUnknown};
}

// Waits may be among what loops do; what is called is not known.
bool may_repeat(const std::vector<std::string>& instructions) {
  return std::any_of(instructions.begin(), instructions.end(), [](const std::string& one) {
    const std::string_view word = first_word(one);
    const std::string_view target = after_first_word(one);
    const bool is_forward = target.size() == 2 && target[0] >= '0' && target[0] <= '9' && target[1] == 'f';
    return (word[0] == 'j' && !is_forward) || word.substr(0, 4) == "loop" || word.substr(0, 4) == "call" ||
           word == "syscall" || word == "int";
  });
}

enum class Move { kNone, kLoad, kStore };

// Of a volatile statement that moves one operand, or a constant, to another.
Move move_of(const gasm* assembly, LockedMemory* memory) {
  using Is = LockedMemory::Is;
  const std::vector<std::string> all = instructions_of(gimple_asm_string(assembly));
  if (all.size() != 1 || !gimple_asm_volatile_p(assembly) || all[0].find("%%") != std::string::npos)
    return Move::kNone;
  constexpr std::array<std::string_view, 5> kMoves = {"mov", "movb", "movw", "movl", "movq"};
  const std::string_view operands = after_first_word(all[0]);
  const std::size_t comma = operands.find_last_of(',');
  if (std::find(kMoves.begin(), kMoves.end(), first_word(all[0])) == kMoves.end() ||
      comma == std::string_view::npos)
    return Move::kNone;
  const auto is_told = [&](std::string_view text) {
    *memory = memory_of(assembly, text);
    return memory->is == Is::kOperand || memory->is == Is::kAtRegister;
  };
  if (is_told(operands.substr(comma + 1))) return Move::kStore;
  return is_told(operands.substr(0, comma)) ? Move::kLoad : Move::kNone;
}

struct AtomicAssembly {
  std::string name;  // of the first such instruction; empty: there is none
  LockedMemory memory;
  bool repeats = false;
};

AtomicAssembly atomic_assembly_of(const gasm* assembly) {
  using Is = LockedMemory::Is;
  const std::vector<std::string> all = instructions_of(gimple_asm_string(assembly));
  AtomicAssembly found;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::string_view word = first_word(all[i]);
    std::string_view instruction = all[i];
    std::string name;
    if (word == "lock") {
      instruction = after_first_word(all[i]);
      if (instruction.empty() && i + 1 < all.size()) instruction = all[++i];
      name = "lock " + std::string(first_word(instruction));
    } else if (word.substr(0, 4) == "xchg") {
      name = word;
    } else {
      continue;
    }
    if (is_at_stack_pointer(instruction)) continue;
    LockedMemory memory = memory_of(assembly, after_first_word(instruction));
    if (memory.is == Is::kNone) {
      if (word != "lock") continue;  // of registers
      memory.is = Is::kUnknown;
    }
    if (found.name.empty()) {
      found.name = name;
      found.memory = memory;
    } else if (memory != found.memory) {
      found.memory.is = Is::kUnknown;
    }
  }
  found.repeats = may_repeat(all);
  return found;
}

tree as_operand(tree expression, gimple_seq& statements) {
  gimple_seq made = NULL;
  tree const operand = force_gimple_operand(expression, &made, true, NULL_TREE);
  gimple_seq_add_seq(&statements, made);
  return operand;
}

tree declared(const char* name, tree signature) {
  tree const function = build_fn_decl(name, signature);
  TREE_NOTHROW(function) = 1;
  return function;
}

void add_call(const gimple* s, gimple_seq& statements, gcall* made) {
  gimple_set_location(made, gimple_location(s));
  gimple_seq_add_stmt(&statements, made);
}

class LockAtomicAssembly final : public gimple_opt_pass {
 public:
  LockAtomicAssembly() : gimple_opt_pass(kData, g) {}

  unsigned execute(function* f) override {
    basic_block block;
    FOR_EACH_BB_FN(block, f) {
      for (gimple_stmt_iterator at = gsi_start_bb(block); !gsi_end_p(at); gsi_next(&at)) {
        gasm* const assembly = dyn_cast<gasm*>(gsi_stmt(at));
        if (assembly == nullptr) continue;
        const AtomicAssembly found = atomic_assembly_of(assembly);
        if (found.name.empty()) {
          LockedMemory memory;
          if (const Move move = move_of(assembly, &memory); move == Move::kStore)
            lock(at, assembly, memory);
          else if (move == Move::kLoad)
            tell_load(at, assembly, memory);
          continue;
        }
        if (found.repeats || gimple_asm_nlabels(assembly) > 0)
          refuse(assembly, found.name, "which may jump back,");
        else if (found.memory.is == LockedMemory::Is::kUnknown)
          refuse(assembly, found.name, "of memory that is no operand");
        else
          lock(at, assembly, found.memory);
      }
    }
    return 0;
  }

 private:
  static void refuse(const gasm* assembly, const std::string& name, const char* why) {
    error_at(
        gimple_location(assembly),
        "inline assembly with %qs, %s is atomic in one cluster alone: use %<__atomic%> or %<__sync%> functions, or "
        "%<std::atomic%>",
        name.c_str(), why);
  }

  static tree address_of(const gasm* assembly, const LockedMemory& memory, gimple_seq& statements) {
    tree address;
    if (memory.is == LockedMemory::Is::kOperand) {
      tree const object = TREE_VALUE(operand_link(assembly, memory.operand));
      address = build_fold_addr_expr(unshare_expr(object));
    } else {
      address =
          fold_build2(POINTER_PLUS_EXPR, ptr_type_node,
                      fold_convert(ptr_type_node, unshare_expr(value_at_begin(assembly, memory.operand))),
                      build_int_cst(sizetype, memory.displacement));
    }
    return as_operand(fold_convert(ptr_type_node, address), statements);
  }

  // Both leave the iterator at the last statement of what they make.
  static void lock(gimple_stmt_iterator& at, gasm* assembly, const LockedMemory& memory) {
    gimple_seq before = NULL, after = NULL;
    tree const address = address_of(assembly, memory, before);
    for (const auto& [name, statements] :
         {std::pair{"braid_assembly_begin", &before}, std::pair{"braid_assembly_end", &after}})
      add_call(assembly, *statements,
               gimple_build_call(
                   declared(name, build_function_type_list(void_type_node, ptr_type_node, NULL_TREE)), 1,
                   address));
    gsi_insert_seq_before(&at, before, GSI_SAME_STMT);
    gasm* const kept = with_memory_clobber(assembly);
    gsi_replace(&at, kept, true);
    gsi_insert_seq_after(&at, after, GSI_CONTINUE_LINKING);
  }

  static void tell_load(gimple_stmt_iterator& at, gasm* assembly, const LockedMemory& memory) {
    if (gimple_asm_noutputs(assembly) != 1) return;
    tree const loaded = TREE_VALUE(gimple_asm_output_op(assembly, 0));
    if (!is_gimple_reg(loaded) || (!INTEGRAL_TYPE_P(TREE_TYPE(loaded)) && !POINTER_TYPE_P(TREE_TYPE(loaded))))
      return;
    gimple_seq before = NULL, after = NULL;
    tree const address = address_of(assembly, memory, before);
    tree const value = as_operand(fold_convert(uint64_type_node, loaded), after);
    add_call(assembly, after,
             gimple_build_call(
                 declared("braid_volatile_read", build_function_type_list(void_type_node, ptr_type_node,
                                                                          uint64_type_node, NULL_TREE)),
                 2, address, value));
    gsi_insert_seq_before(&at, before, GSI_SAME_STMT);
    gsi_replace(&at, with_memory_clobber(assembly), true);
    gsi_insert_seq_after(&at, after, GSI_CONTINUE_LINKING);
  }

  // It is not moved across the calls, which use memory.
  static gasm* with_memory_clobber(const gasm* assembly) {
    vec<tree, va_gc>*inputs = NULL, *outputs = NULL, *clobbers = NULL;
    for (unsigned i = 0; i < gimple_asm_ninputs(assembly); ++i)
      vec_safe_push(inputs, gimple_asm_input_op(assembly, i));
    for (unsigned i = 0; i < gimple_asm_noutputs(assembly); ++i)
      vec_safe_push(outputs, gimple_asm_output_op(assembly, i));
    for (unsigned i = 0; i < gimple_asm_nclobbers(assembly); ++i)
      vec_safe_push(clobbers, gimple_asm_clobber_op(assembly, i));
    vec_safe_push(clobbers, build_tree_list(NULL_TREE, build_string(6, "memory")));
    gasm* const kept = gimple_build_asm_vec(gimple_asm_string(assembly), inputs, outputs, clobbers, NULL);
    gimple_set_location(kept, gimple_location(assembly));
    gimple_asm_set_volatile(kept, true);
    gimple_asm_set_inline(kept, gimple_asm_inline_p(assembly));
    return kept;
  }

  static constexpr pass_data kData = {
      GIMPLE_PASS, "braid_assembly", OPTGROUP_NONE, TV_NONE, PROP_cfg, 0, 0, 0, 0};
};

// Nobody else has an address of it.
bool is_private(tree variable) {
  if (!DECL_P(variable)) return false;
  if (VAR_P(variable) && DECL_THREAD_LOCAL_P(variable)) return true;
  return !is_global_var(variable) && !TREE_ADDRESSABLE(variable);
}

bool is_volatile_memory(tree operand) {
  if (operand == NULL_TREE || !TREE_THIS_VOLATILE(operand)) return false;
  if (!DECL_P(operand) && !handled_component_p(operand) && TREE_CODE(operand) != MEM_REF) return false;
  tree const base = get_base_address(operand);
  return base != NULL_TREE && !is_private(base);
}

class TellVolatileAccesses final : public gimple_opt_pass {
 public:
  TellVolatileAccesses() : gimple_opt_pass(kData, g) {}

  bool gate(function*) override { return changes_volatile_accesses; }
  unsigned execute(function* f) override {
    basic_block block;
    FOR_EACH_BB_FN(block, f) {
      for (gimple_stmt_iterator at = gsi_start_bb(block); !gsi_end_p(at); gsi_next(&at)) change(at);
    }
    return 0;
  }

 private:
  // Leaves the iterator at the last statement of what it makes.
  static void change(gimple_stmt_iterator& at) {
    gimple* const s = gsi_stmt(at);
    if (gimple_clobber_p(s)) return;
    const bool ends_block = stmt_ends_bb_p(s);
    gimple_seq before = NULL, after = NULL;
    if (tree const target = target_of(s); is_volatile_memory(target)) {
      if (is_gimple_assign(s) && !ends_block && is_number(TREE_TYPE(target)) && !is_bit_field(target)) {
        tree const address = address_of(target, before);
        tree const value = bits_of(gimple_assign_rhs1(s), before);
        tree const bytes = build_int_cst(unsigned_type_node, int_size_in_bytes(TREE_TYPE(target)));
        gcall* const write = gimple_build_call(
            declared("braid_volatile_write",
                     build_function_type_list(void_type_node, ptr_type_node, unsigned_type_node,
                                              uint64_type_node, NULL_TREE)),
            3, address, bytes, value);
        gimple_set_location(write, gimple_location(s));
        gsi_insert_seq_before(&at, before, GSI_SAME_STMT);
        gsi_replace(&at, write, true);
        return;
      }
      pass(s, target, before);
      pass(s, target, after);
    }
    if (tree const source = gimple_assign_single_p(s) ? gimple_assign_rhs1(s) : NULL_TREE;
        is_volatile_memory(source)) {
      tree const target = gimple_assign_lhs(s);
      if (!ends_block && is_number(TREE_TYPE(source)) && is_gimple_reg(target)) {
        tree const address = address_of(source, before);
        tree const value = bits_of(target, after);
        add_call(s, after,
                 gimple_build_call(
                     declared("braid_volatile_read", build_function_type_list(void_type_node, ptr_type_node,
                                                                              uint64_type_node, NULL_TREE)),
                     2, address, value));
      } else {
        pass(s, source, before);
        pass(s, source, after);
      }
    }
    if (before != NULL) gsi_insert_seq_before(&at, before, GSI_SAME_STMT);
    if (after != NULL && !ends_block) gsi_insert_seq_after(&at, after, GSI_CONTINUE_LINKING);
  }

  static tree target_of(gimple* s) {
    if (is_gimple_assign(s)) return gimple_assign_lhs(s);
    return is_gimple_call(s) ? gimple_call_lhs(s) : NULL_TREE;
  }

  // Of as many bytes as an atomic operation of the processor.
  static bool is_number(tree type) {
    if (!INTEGRAL_TYPE_P(type) && !POINTER_TYPE_P(type) && !SCALAR_FLOAT_TYPE_P(type)) return false;
    const HOST_WIDE_INT bytes = int_size_in_bytes(type);
    return bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8;
  }

  static bool is_bit_field(tree accessed) {
    return TREE_CODE(accessed) == BIT_FIELD_REF ||
           (TREE_CODE(accessed) == COMPONENT_REF && DECL_BIT_FIELD(TREE_OPERAND(accessed, 1)));
  }

  static tree address_of(tree accessed, gimple_seq& statements) {
    while (is_bit_field(accessed)) accessed = TREE_OPERAND(accessed, 0);
    return as_operand(fold_convert(ptr_type_node, build_fold_addr_expr(unshare_expr(accessed))), statements);
  }

  // Of a number, in a 64-bit word.
  static tree bits_of(tree value, gimple_seq& statements) {
    if (SCALAR_FLOAT_TYPE_P(TREE_TYPE(value))) {
      const unsigned bits = static_cast<unsigned>(int_size_in_bytes(TREE_TYPE(value))) * BITS_PER_UNIT;
      value = fold_build1(VIEW_CONVERT_EXPR, build_nonstandard_integer_type(bits, 1), value);
    }
    return as_operand(fold_convert(uint64_type_node, value), statements);
  }

  static void pass(const gimple* s, tree accessed, gimple_seq& statements) {
    tree const address = address_of(accessed, statements);
    add_call(s, statements,
             gimple_build_call(declared("braid_volatile_pass",
                                        build_function_type_list(void_type_node, ptr_type_node, NULL_TREE)),
                               1, address));
  }

  static constexpr pass_data kData = {
      GIMPLE_PASS, "braid_volatile", OPTGROUP_NONE, TV_NONE, PROP_cfg, 0, 0, 0, 0};
};

void add_beside(const char* plugin, opt_pass* pass, const char* other, pass_positioning_ops where_there) {
  register_pass_info where;
  where.pass = pass;
  where.reference_pass_name = other;
  where.ref_pass_instance_number = 1;
  where.pos_op = where_there;
  register_callback(plugin, PLUGIN_PASS_MANAGER_SETUP, NULL, &where);
}

// Every function goes through it once, optimised or not.
void add_pass(const char* plugin, gimple_opt_pass* pass) {
  add_beside(plugin, pass, "cfg", PASS_POS_INSERT_AFTER);
}

// Around GCC's pass that makes the calls for thread-local variables: those of libraries are none for it.
std::vector<varpool_node*> variables_of_libraries;

class HideVariablesOfLibraries : public simple_ipa_opt_pass {
 public:
  HideVariablesOfLibraries() : simple_ipa_opt_pass(kData, g) {}
  unsigned execute(function* /*all*/) override {
    varpool_node* variable = nullptr;
    FOR_EACH_VARIABLE(variable) {
      if (!DECL_THREAD_LOCAL_P(variable->decl) || variable->definition ||
          !DECL_IN_SYSTEM_HEADER(variable->decl))
        continue;
      variables_of_libraries.push_back(variable);
      variable->tls_model = TLS_MODEL_NONE;
    }
    return 0;
  }

 private:
  static constexpr pass_data kData = {
      SIMPLE_IPA_PASS, "braid_hide_variables", OPTGROUP_NONE, TV_NONE, 0, 0, 0, 0, 0};
};

class ShowVariablesOfLibraries : public simple_ipa_opt_pass {
 public:
  ShowVariablesOfLibraries() : simple_ipa_opt_pass(kData, g) {}
  unsigned execute(function* /*all*/) override {
    for (varpool_node* const variable : variables_of_libraries) variable->tls_model = TLS_MODEL_INITIAL_EXEC;
    variables_of_libraries.clear();
    return 0;
  }

 private:
  static constexpr pass_data kData = {
      SIMPLE_IPA_PASS, "braid_show_variables", OPTGROUP_NONE, TV_NONE, 0, 0, 0, 0, 0};
};

// The C library's header has these as functions that are compiled into their callers and use the fields of a stream, which may be
// memory of another cluster (streams.cpp).
constexpr std::string_view kStreamFields[] = {"fgetc_unlocked", "getc_unlocked", "fputc_unlocked",
                                              "putc_unlocked",  "feof_unlocked", "ferror_unlocked"};

// `declared`: of a function that was read.
void on_function(void* declared, void* /*data*/) {
  tree const function = static_cast<tree>(declared);
  if (TREE_CODE(function) != FUNCTION_DECL || !DECL_DECLARED_INLINE_P(function) || !DECL_EXTERNAL(function) ||
      DECL_NAME(function) == NULL_TREE)
    return;
  const std::string_view name(IDENTIFIER_POINTER(DECL_NAME(function)));
  if (std::find(std::begin(kStreamFields), std::end(kStreamFields), name) != std::end(kStreamFields))
    DECL_UNINLINABLE(function) = 1;
}

// `name`: of a file that is included.
void on_include(void* name, void* /*data*/) {
  const std::string_view file(static_cast<const char*>(name));
  if (file.size() >= kParmacsHeader.size() &&
      file.substr(file.size() - kParmacsHeader.size()) == kParmacsHeader)
    changes_volatile_accesses = true;
}

}  // namespace
}  // namespace braid::dsm::pthreads

int plugin_init(plugin_name_args* info, plugin_gcc_version* version) {
  if (!plugin_default_version_check(version, &gcc_version)) {
    error("%qs was built for GCC %s, and this is %s: build the project with one compiler", info->base_name,
          gcc_version.basever, version->basever);
    return 1;
  }
  using namespace braid::dsm::pthreads;
  if (info->argc > 0 && std::strcmp(info->argv[0].key, "parmacs") == 0) {
    changes_volatile_accesses = false;
    register_callback(info->base_name, PLUGIN_INCLUDE_FILE, on_include, NULL);
  } else {
    add_pass(info->base_name, new LockAtomicAssembly());
    register_callback(info->base_name, PLUGIN_FINISH_PARSE_FUNCTION, on_function, NULL);
    targetm.have_tls = false;
    add_beside(info->base_name, new HideVariablesOfLibraries(), "emutls", PASS_POS_INSERT_BEFORE);
    add_beside(info->base_name, new ShowVariablesOfLibraries(), "emutls", PASS_POS_INSERT_AFTER);
  }
  add_pass(info->base_name, new TellVolatileAccesses());
  return 0;
}
