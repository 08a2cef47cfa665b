// A GCC plug-in for what pthread programs and PARMACS ones do about order without calling anybody. The compiler's own atomics become
// calls (atomics.cpp) without it.
//
// With the argument `parmacs` it only changes volatile accesses, in files that include the header of the PARMACS macros.
//
// Atomic instructions in inline assembly are refused: one is atomic in its own cluster's copy of a page alone. Of x86: an
// instruction with the prefix lock, and xchg with memory, which has it always. Code often orders its accesses by one whose
// operand is the top of the stack; that stays.
//
// Threads wait for volatile variables that others write. Calls (atomics.cpp, dsm/parmacs/volatiles.cpp) see to it that the one comes to see the other, and
// what was written before it: a write of a number or a pointer becomes a call, a read of one has a call behind it, and any other
// volatile access has one on each side.
#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

// GCC's own headers, in the order that they require, after those of the standard library.
#include <gcc-plugin.h>

#include <tree.h>

#include <basic-block.h>
#include <gimple.h>
#include <ssa.h>

#include <context.h>
#include <diagnostic-core.h>
#include <fold-const.h>
#include <gimple-iterator.h>
#include <gimplify-me.h>
#include <gimplify.h>
#include <plugin-version.h>
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

bool has_memory_operand(const gasm* assembly) {
  const auto is_memory = [](tree operand) {
    return std::strpbrk(TREE_STRING_POINTER(TREE_VALUE(TREE_PURPOSE(operand))), "moV") != nullptr;
  };
  for (unsigned i = 0; i < gimple_asm_noutputs(assembly); ++i)
    if (is_memory(gimple_asm_output_op(assembly, i))) return true;
  for (unsigned i = 0; i < gimple_asm_ninputs(assembly); ++i)
    if (is_memory(gimple_asm_input_op(assembly, i))) return true;
  return false;
}

// Empty: there is none.
std::string atomic_instruction_of(const gasm* assembly) {
  const std::vector<std::string> all = instructions_of(gimple_asm_string(assembly));
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::string_view word = first_word(all[i]);
    if (word == "lock") {
      std::string_view locked = after_first_word(all[i]);
      if (locked.empty() && i + 1 < all.size()) locked = all[i + 1];
      if (!is_at_stack_pointer(locked)) return "lock " + std::string(first_word(locked));
    } else if (word.substr(0, 4) == "xchg" &&
               (all[i].find('(') != std::string::npos || has_memory_operand(assembly))) {
      return std::string(word);
    }
  }
  return {};
}

class RefuseAtomicAssembly final : public gimple_opt_pass {
 public:
  RefuseAtomicAssembly() : gimple_opt_pass(kData, g) {}

  unsigned execute(function* f) override {
    basic_block block;
    FOR_EACH_BB_FN(block, f) {
      for (gimple_stmt_iterator at = gsi_start_bb(block); !gsi_end_p(at); gsi_next(&at)) {
        const gasm* const assembly = dyn_cast<const gasm*>(gsi_stmt(at));
        if (assembly == nullptr) continue;
        if (const std::string found = atomic_instruction_of(assembly); !found.empty())
          error_at(
              gimple_location(assembly),
              "inline assembly with %qs is atomic in one cluster alone: use %<__atomic%> or %<__sync%> functions, or "
              "%<std::atomic%>",
              found.c_str());
      }
    }
    return 0;
  }

 private:
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

  static tree as_operand(tree expression, gimple_seq& statements) {
    gimple_seq made = NULL;
    tree const operand = force_gimple_operand(expression, &made, true, NULL_TREE);
    gimple_seq_add_seq(&statements, made);
    return operand;
  }

  static tree declared(const char* name, tree signature) {
    tree const function = build_fn_decl(name, signature);
    TREE_NOTHROW(function) = 1;
    return function;
  }

  static void pass(const gimple* s, tree accessed, gimple_seq& statements) {
    tree const address = address_of(accessed, statements);
    add_call(s, statements,
             gimple_build_call(declared("braid_volatile_pass",
                                        build_function_type_list(void_type_node, ptr_type_node, NULL_TREE)),
                               1, address));
  }

  static void add_call(const gimple* s, gimple_seq& statements, gcall* made) {
    gimple_set_location(made, gimple_location(s));
    gimple_seq_add_stmt(&statements, made);
  }

  static constexpr pass_data kData = {
      GIMPLE_PASS, "braid_volatile", OPTGROUP_NONE, TV_NONE, PROP_cfg, 0, 0, 0, 0};
};

// Every function goes through it once, optimised or not.
void add_pass(const char* plugin, gimple_opt_pass* pass) {
  register_pass_info where;
  where.pass = pass;
  where.reference_pass_name = "cfg";
  where.ref_pass_instance_number = 1;
  where.pos_op = PASS_POS_INSERT_AFTER;
  register_callback(plugin, PLUGIN_PASS_MANAGER_SETUP, NULL, &where);
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
    add_pass(info->base_name, new RefuseAtomicAssembly());
  }
  add_pass(info->base_name, new TellVolatileAccesses());
  return 0;
}
