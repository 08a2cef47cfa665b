// What everybody who waits for the words of a host does.
#pragma once

#include <string>
#include <string_view>

#include "base/time.h"
#include "tools/braid/process/output_relay.h"
#include "tools/braid/run/liveness.h"
#include "tools/braid/run/messages.h"

namespace braid::cli {

// From the start of its command on, for the first word.
inline constexpr Duration kHostConnects = 60_s;
// The same for Liveness::start().
inline constexpr Duration kPatience = kHostConnects - Liveness::kLost;

// Whether the greeting has come. What a login shell wrote before it is shown as the host's.
bool take_greeting(MessageReader& reader, std::string_view greeting, const std::string& host,
                   OutputRelay& output);

// Of one that is taken for lost: after its greeting, and before.
std::string text_of_silence();
std::string text_of_no_answer();

}  // namespace braid::cli
