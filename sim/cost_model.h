// What the simulator knows of the model of what things cost (settings/cost_model.h).
#pragma once

#include "settings/cost_model.h"

namespace braid::sim {

using settings::CostModel;

}  // namespace braid::sim
