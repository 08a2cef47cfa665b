// A name that one process of this machine has: a socket's in the abstract namespace (unix(7)), which the kernel gives to one
// process and frees when it ends. Processes of other network namespaces do not see each other's.
#pragma once

#include <optional>
#include <string>

#include "tools/braid/process/descriptor.h"

namespace braid::cli {

// The caller has the name as long as it keeps the descriptor. None: another one has it. Where a socket cannot be made for another
// reason, nobody is kept from anything: the descriptor is empty.
std::optional<Descriptor> claim_name(const std::string& name);

bool is_name_claimed(const std::string& name);

}  // namespace braid::cli
