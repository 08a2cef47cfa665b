// A GCC plug-in for pthread programs that refuses atomic instructions in inline assembly: such an instruction is atomic in its
// own cluster's copy of a page alone. The compiler's own atomics become calls (atomics.cpp).
//
// Of x86: an instruction with the prefix lock, and xchg with memory, which has it always. Code often orders its accesses by one
// whose operand is the top of the stack; that stays.
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
#include <gimple-iterator.h>
#include <plugin-version.h>
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

class Pass final : public gimple_opt_pass {
 public:
  Pass() : gimple_opt_pass(kData, g) {}

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

}  // namespace
}  // namespace braid::dsm::pthreads

int plugin_init(plugin_name_args* info, plugin_gcc_version* version) {
  if (!plugin_default_version_check(version, &gcc_version)) {
    error("%qs was built for GCC %s, and this is %s: build the project with one compiler", info->base_name,
          gcc_version.basever, version->basever);
    return 1;
  }
  // Every function goes through it once, optimised or not.
  register_pass_info where;
  where.pass = new braid::dsm::pthreads::Pass();
  where.reference_pass_name = "cfg";
  where.ref_pass_instance_number = 1;
  where.pos_op = PASS_POS_INSERT_AFTER;
  register_callback(info->base_name, PLUGIN_PASS_MANAGER_SETUP, NULL, &where);
  return 0;
}
