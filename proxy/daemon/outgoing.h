// A message, or a piece of one, on its way out of a proxy: what the stack sends, whose it is, and which proxy of
// the node sends it.
#pragma once

#include <cstdint>
#include <variant>

#include "base/ids.h"
#include "stack/sub_connection.h"

namespace braid::proxy {

class Channel;

struct Outgoing : stack::OutMessage {
  // Lent: another proxy sends it for this one.
  struct Lent {
    ProxyId to;
    std::uint32_t generation = 0;  // of the borrower, as far as was known: how often it had been fenced
  };
  // This proxy sends it for another one.
  struct Borrowed {
    ProxyId from;
    std::uint32_t generation = 0;  // of the lender
    Outgoing* original = nullptr;  // which the lender alone looks into
  };

  Channel* channel = nullptr;  // nullptr: the control plane's, or borrowed
  ClusterId to;
  bool done = false;
  std::variant<std::monostate, Lent, Borrowed> loan;

  const Lent* lent() const { return std::get_if<Lent>(&loan); }
  const Borrowed* borrowed() const { return std::get_if<Borrowed>(&loan); }
};

}  // namespace braid::proxy
