// What main() once needs of a host before init(). Defined by the library of the host that the program is linked with, as
// start_clusters() is: dsm/once itself for live runs, sim/shell for simulation.
#pragma once

#include <cstddef>

namespace braid::dsm::once {

// The size of the shared heap that init() will map. Ends the process with a message where there is none to come.
std::size_t heap_bytes_to_come();
// The setting that has it, for messages.
const char* heap_setting();
// The program has taken these bytes of it, for reports of what they cost.
void note_early_allocation(const void* memory, std::size_t bytes);

}  // namespace braid::dsm::once
