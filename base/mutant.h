// Mutants: defects that a test can switch on, to prove that it would notice them.
//
// The programs that people run are compiled without BRAID_MUTANTS: there mutant() is false for the compiler
// too, and nothing of it is left. tests/sim and tests/dsm compile the same sources once more, with it, into a
// fault simulation and an explorer whose checkers must catch each of these.
#pragma once

#include <cstdint>

namespace braid {

enum class Mutant : std::uint8_t {
  kNone,
  kForgetAcknowledgement,  // the receive window does not note a packet that arrives before an earlier one
  kAcceptOldEpoch,         // packets of other incarnations are looked into
  kMisorderAfterFailover,  // what is sent again over another path takes the place of what is next
  kLeakCredit,             // now and then a returned credit is dropped
  kDropTailProbe,          // a lost tail waits for its timer
  kAskDuringOwnFlush,      // a page is asked for while the own changes of it are in progress
  kInitiatorsKeepCopies,   // of several writers of a round each keeps its copy
  kJoinRunningRound,       // a diff that arrives in a round is made visible by this one
  kEndRoundEarly,          // a round does not wait for acknowledgements
  kInstallStaleReply,      // a page older than an invalidation is used
  kForgetChanges,          // a dirty page that is invalidated loses its changes
  kTokenLeavesEarly,       // a lock's token does not wait for the release
  kForgetEarlyRecall,      // a recall that overtakes its grant is lost
  kMoveFromSuspects,       // a home moves while changes may be on their way to it
};

#ifdef BRAID_MUTANTS
inline Mutant active_mutant = Mutant::kNone;
inline bool mutant(Mutant one) {
  return one == active_mutant;
}
#else
constexpr bool mutant(Mutant) {
  return false;
}
#endif

}  // namespace braid
