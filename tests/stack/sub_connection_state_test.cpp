#include "stack/sub_connection_state.h"

#include <gtest/gtest.h>

#include <string>

namespace braid::stack {
namespace {

using State = SubConnectionState;
using Event = SubConnectionEvent;

std::string name(State s) {
  switch (s) {
    case State::kHandshake:
      return "handshake";
    case State::kEstablished:
      return "established";
    case State::kFenced:
      return "fenced";
    case State::kClosed:
      return "closed";
  }
  return "?";
}

std::string name(Event e) {
  switch (e) {
    case Event::kPeerKnown:
      return "peer known";
    case Event::kPeerGone:
      return "peer gone";
    case Event::kFenced:
      return "fenced";
    case Event::kEnded:
      return "ended";
    case Event::kReopened:
      return "reopened";
  }
  return "?";
}

TEST(SubConnectionState, TransitionsAreAsDrawn) {
  std::string graph = "\n";
  for (const SubConnectionTransition& t : kSubConnectionTransitions)
    graph += name(t.from) + " -- " + name(t.event) + " --> " + name(t.to) + "\n";
  EXPECT_EQ(graph, R"(
handshake -- peer known --> established
handshake -- fenced --> fenced
handshake -- ended --> closed
established -- peer gone --> handshake
established -- fenced --> fenced
established -- ended --> closed
fenced -- fenced --> fenced
fenced -- reopened --> handshake
closed -- fenced --> fenced
closed -- reopened --> handshake
)");
}

TEST(SubConnectionState, UnlistedTransitionsAreImpossible) {
  EXPECT_EQ(next_state(State::kHandshake, Event::kPeerKnown), State::kEstablished);
  EXPECT_FALSE(next_state(State::kFenced, Event::kPeerKnown).has_value());
  EXPECT_FALSE(next_state(State::kClosed, Event::kPeerKnown).has_value());
  EXPECT_FALSE(next_state(State::kFenced, Event::kEnded).has_value());
  EXPECT_FALSE(next_state(State::kEstablished, Event::kReopened).has_value());
}

}  // namespace
}  // namespace braid::stack
