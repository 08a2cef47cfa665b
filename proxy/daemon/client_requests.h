// Parses and checks a client's requests before they are carried out, and makes the answers that take more than a
// line. The texts are for the client's user.
#pragma once

#include <string>

#include "base/time.h"
#include "convergence/ports.h"
#include "proxy/channel/control.h"
#include "proxy/daemon/client_memory.h"
#include "proxy/daemon/datagram.h"
#include "proxy/daemon/machines.h"
#include "proxy/daemon/worker_commands.h"

namespace braid::proxy {

// Empty: it can be carried out as far as its form goes. `memory`: the client's; nullptr: it has not attached.
std::string request_problem(const control::Message& request, const ClientMemory* memory);

// A kConnectMachine request without a problem.
Machines::Request machine_request(Instant now, ClientId client, const control::Message& request);

// The message to the client about an open end of a connection. `accepted`: by a listener; else it has connected.
control::Message opened_message(const convergence::Ports::End& end, bool accepted);

// The datagram of a kSendDatagram that request_problem() accepts, and the answer that hands one over.
Datagram requested_datagram(const control::DatagramMessage& message);
control::Message datagram_message(const Datagram& datagram);

}  // namespace braid::proxy
