// A GCC plug-in that makes a program count what it computes: the inserted code subtracts the cost of the
// program's statements (cost_table.h) from a budget (budget.h) and calls a handler when the budget is spent.
// The counts depend only on the source, the compiler and its flags.
//
// The pass runs after inlining and scalar optimisation and before the loop optimisations, so the counts do
// not depend on what these do for the host's processor, such as vectorisation. Unoptimised code is counted as
// it is.
//
// Arguments: -fplugin-arg-braid_charge-everywhere charges every segment (placement.h) at its start. The sums
// are equal; tests compare them. -fplugin-arg-braid_charge-shared-stacks is for programs whose stacks are shared memory,
// -fplugin-arg-braid_charge-checks for those whose accesses are checked (check_accesses.h).
#include "sim/charge/check_accesses.h"
#include "sim/charge/placement.h"

// GCC loads no plug-in without it. The project's licence, Apache 2.0, is compatible with GCC's, GPL 3.
int plugin_is_GPL_compatible;

namespace braid::charge {
namespace {

struct Options {
  bool everywhere = false;
  Placement::Stacks stacks = Placement::Stacks::kPrivate;
  Placement::Checks checks = Placement::Checks::kNone;
};

class Pass final : public gimple_opt_pass {
 public:
  enum class Code { kOptimised, kNotOptimised };

  Pass(Code code, Options options) : gimple_opt_pass(kData, g), code_(code), options_(options) {}

  bool gate(function*) override {
    const bool optimised = optimize >= 1 && !optimize_debug;
    return optimised == (code_ == Code::kOptimised);
  }

  unsigned execute(function* f) override {
    loop_optimizer_init(LOOPS_NORMAL | LOOPS_HAVE_RECORDED_EXITS);
    split_critical_edges();
    scev_initialize();
    calculate_dominance_info(CDI_DOMINATORS);
    calculate_dominance_info(CDI_POST_DOMINATORS);
    Placement placement(f, options_.stacks, options_.checks);
    if (code_ == Code::kOptimised && !options_.everywhere) {
      placement.charge_loops_at_entry();
      placement.merge_charges();
    }
    placement.insert();
    if (options_.checks == Placement::Checks::kFollow) check_accesses(f);
    free_dominance_info(CDI_POST_DOMINATORS);
    scev_finalize();
    loop_optimizer_finalize();
    return 0;
  }

 private:
  static constexpr pass_data kData = {GIMPLE_PASS,
                                      "braid_charge",
                                      OPTGROUP_NONE,
                                      TV_NONE,
                                      PROP_cfg | PROP_ssa,
                                      0,
                                      0,
                                      0,
                                      TODO_update_ssa | TODO_cleanup_cfg};

  Code code_;
  Options options_;
};

bool read_options(const plugin_name_args& info, Options* options) {
  for (int i = 0; i < info.argc; ++i) {
    const auto is = [&argument = info.argv[i]](const char* key) {
      return std::strcmp(argument.key, key) == 0 && argument.value == NULL;
    };
    if (is("everywhere")) {
      options->everywhere = true;
    } else if (is("shared-stacks")) {
      options->stacks = Placement::Stacks::kShared;
    } else if (is("checks")) {
      options->checks = Placement::Checks::kFollow;
    } else {
      error(
          "%qs takes no argument %qs: there is %<-fplugin-arg-%s-everywhere%>, %<-shared-stacks%> and %<-checks%>",
          info.base_name, info.argv[i].key, info.base_name);
      return false;
    }
  }
  if (options->stacks == Placement::Stacks::kShared && options->checks != Placement::Checks::kNone) {
    error("%qs checks no accesses of programs whose stacks are shared memory", info.base_name);
    return false;
  }
  return true;
}

void add_pass(const plugin_name_args& info, Pass* pass, const char* before) {
  register_pass_info where;
  where.pass = pass;
  where.reference_pass_name = before;
  where.ref_pass_instance_number = 1;
  where.pos_op = PASS_POS_INSERT_BEFORE;
  register_callback(info.base_name, PLUGIN_PASS_MANAGER_SETUP, NULL, &where);
}

}  // namespace
}  // namespace braid::charge

int plugin_init(plugin_name_args* info, plugin_gcc_version* version) {
  using namespace braid::charge;
  if (!plugin_default_version_check(version, &gcc_version)) {
    error("%qs was built for GCC %s, and this is %s: build the project with one compiler", info->base_name,
          gcc_version.basever, version->basever);
    return 1;
  }
  Options options;
  if (!read_options(*info, &options)) return 1;
  // The last pass before the loop optimisations, which also runs for functions without loops; and the first
  // pass that only unoptimised code goes through.
  add_pass(*info, new Pass(Pass::Code::kOptimised, options), "fix_loops");
  add_pass(*info, new Pass(Pass::Code::kNotOptimised, options), "sancov_O0");
  return 0;
}
