// Mutants: defects that a test can switch on, to prove that it would detect them.
//
// Released programs are compiled without BRAID_MUTANTS: mutant() is then constantly false
// and costs nothing. tests/sim and tests/dsm compile the same sources a second time with it,
// into a fault simulation and an explorer whose checkers must detect each of these mutants.
#pragma once

#include <cstdint>

namespace braid {

enum class Mutant : std::uint8_t {
  kNone,
  kForgetAcknowledgement,  // the receive window does not note a packet that arrives before an earlier one
  kAcceptOldEpoch,         // packets of other incarnations are processed
  kMisorderAfterFailover,  // a message that is sent again over another path takes the next message's place
  kLeakCredit,             // some returned credits are dropped
  kDropTailProbe,          // a lost tail waits for the retransmission timer
  kAskDuringOwnFlush,      // a page is requested while this cluster's flush of it is in progress
  kInitiatorsKeepCopies,   // each of several writers in a round keeps its copy
  kJoinRunningRound,       // a diff that arrives during a round is made visible by this round
  kEndRoundEarly,          // a round does not wait for acknowledgements
  kInstallStaleReply,      // a page that is older than an invalidation is installed
  kJudgeRunByFirst,        // the pages behind the first of a run are installed, however old they are
  kForgetChanges,          // a dirty page that is invalidated loses its changes
  kTokenLeavesEarly,       // a lock's token does not wait for the release
  kForgetEarlyRecall,      // a recall that overtakes its grant is lost
  kTokenStarves,           // the number of uses of a recalled token has no bound
  kEndlessLease,           // a lease has any number of rounds
  kLoseGrant,              // a token that does not go to its manager's cluster is lost
  kTokenStaysToo,          // a cluster that has passed a token on has it still
  kMoveFromSuspects,       // a home moves while changes may be in flight to it
  kBelieveAnnouncements,   // an ARP packet replaces a known station although that answers, and for good
  kForgiveAllSilence,      // after a scheduling gap a peer's silence counts from its end
  kLoseTrainMessage,       // the last message of a train is not reported
  kRepeatTrainMessage,     // the first message of a train is delivered in the place of the second, too
  kConfuseProtocols,       // a datagram of another protocol is handed to that of plain datagrams
  kDeliverDuplicates,      // a datagram that may be a duplicate is handed up
  kForgetProtocol,         // every record says that it is of the messages' protocol
  kLoseNotice,             // a home's own release makes no notice
  kAcquireEarly,           // a message by which a node acquires is handled before its notices are there
  kCollectEarly,           // what a barrier makes known to all counts as known before it has left
  kBelieveOwnCopy,  // a writer's copy takes its release's version although other writers' changes are missing
  kWordStaysOpen,   // a lock's word stays open when the token leaves
  kTryWaits,        // a cluster that holds a lock does not answer that it is taken
  kGrantTooMuch,    // a credit grants a granule that the receiver has not consumed
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
