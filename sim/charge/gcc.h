// GCC's own headers, in the order that they require. They poison names of the C library, so the headers of
// the standard library come first.
#pragma once

#include <algorithm>
#include <climits>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

// Before all others.
#include <gcc-plugin.h>

// Data structures: trees,
#include <tree.h>

// statements and blocks;
#include <basic-block.h>
#include <gimple.h>
#include <ssa.h>

// and operations on them.
#include <alias.h>
#include <builtins.h>
#include <cfgloop.h>
#include <cfgloopmanip.h>
#include <context.h>
#include <diagnostic-core.h>
#include <fold-const.h>
#include <gimple-iterator.h>
#include <gimplify-me.h>
#include <gimplify.h>
#include <internal-fn.h>
#include <plugin-version.h>
#include <ssa.h>
#include <stor-layout.h>
#include <stringpool.h>
#include <tree-cfg.h>
#include <tree-data-ref.h>
#include <tree-dfa.h>
#include <tree-into-ssa.h>
#include <tree-pass.h>
#include <tree-scalar-evolution.h>
#include <tree-ssa-loop-manip.h>
#include <tree-ssa-loop-niter.h>
#include <tree-ssa-loop.h>
