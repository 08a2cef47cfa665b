// A GCC plug-in for what pthread programs do about order without calling anybody. The compiler's own atomics become calls
// (atomics.cpp) without it.
//
// Atomic instructions in inline assembly are refused: one is atomic in its own cluster's copy of a page alone. Of x86: an
// instruction with the prefix lock, and xchg with memory, which has it always. Code often orders its accesses by one whose
// operand is the top of the stack; that stays.
//
// Threads wait for volatile variables that others write. A call before each volatile read, and one behind each volatile write
// (atomics.cpp), sees to it that the one comes to see the other.
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

  unsigned execute(function* f) override {
    tree const signature = build_function_type_list(void_type_node, ptr_type_node, NULL_TREE);
    tree const read = build_fn_decl("braid_volatile_read", signature);
    tree const written = build_fn_decl("braid_volatile_written", signature);
    TREE_NOTHROW(read) = TREE_NOTHROW(written) = 1;
    basic_block block;
    FOR_EACH_BB_FN(block, f) {
      for (gimple_stmt_iterator at = gsi_start_bb(block); !gsi_end_p(at); gsi_next(&at)) {
        gimple* const s = gsi_stmt(at);
        if (gimple_clobber_p(s)) continue;
        if (gimple_assign_single_p(s) && is_volatile_memory(gimple_assign_rhs1(s)))
          gsi_insert_before(&at, call(read, s, gimple_assign_rhs1(s), at), GSI_SAME_STMT);
        tree const target = target_of(s);
        if (is_volatile_memory(target) && !stmt_ends_bb_p(s))
          gsi_insert_after(&at, call(written, s, target, at), GSI_NEW_STMT);
      }
    }
    return 0;
  }

 private:
  static tree target_of(gimple* s) {
    if (is_gimple_assign(s)) return gimple_assign_lhs(s);
    return is_gimple_call(s) ? gimple_call_lhs(s) : NULL_TREE;
  }
  // With the address of what the statement accesses, which is computed before it.
  static gcall* call(tree function, gimple* s, tree accessed, gimple_stmt_iterator& at) {
    while (TREE_CODE(accessed) == BIT_FIELD_REF ||
           (TREE_CODE(accessed) == COMPONENT_REF && DECL_BIT_FIELD(TREE_OPERAND(accessed, 1))))
      accessed = TREE_OPERAND(accessed, 0);
    tree const address = fold_convert(ptr_type_node, build_fold_addr_expr(unshare_expr(accessed)));
    gcall* const made = gimple_build_call(
        function, 1, force_gimple_operand_gsi(&at, address, true, NULL_TREE, true, GSI_SAME_STMT));
    gimple_set_location(made, gimple_location(s));
    return made;
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

}  // namespace
}  // namespace braid::dsm::pthreads

int plugin_init(plugin_name_args* info, plugin_gcc_version* version) {
  if (!plugin_default_version_check(version, &gcc_version)) {
    error("%qs was built for GCC %s, and this is %s: build the project with one compiler", info->base_name,
          gcc_version.basever, version->basever);
    return 1;
  }
  using namespace braid::dsm::pthreads;
  add_pass(info->base_name, new RefuseAtomicAssembly());
  add_pass(info->base_name, new TellVolatileAccesses());
  return 0;
}
