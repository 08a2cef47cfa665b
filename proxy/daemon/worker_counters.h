// Copies of what a stack counts for the memory that others read.
#pragma once

#include "proxy/channel/node_counters.h"
#include "stack/stack.h"

namespace braid::proxy {

void publish_stack_counters(const stack::Stack& stack, ProxyCounters& counters);

}  // namespace braid::proxy
