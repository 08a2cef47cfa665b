// What the commands know of a run's settings (settings/run.h).
#pragma once

#include "settings/reader.h"
#include "settings/run.h"

namespace braid::cli {

using convergence::Dispatch;
using settings::DpdkKind;
using settings::InterfaceConfig;
using settings::RunConfig;
using settings::Wire;

using ConfigBuilder = settings::Collector<RunConfig>;

}  // namespace braid::cli
