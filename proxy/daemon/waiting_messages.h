// Messages that a proxy has and cannot send at the moment.
//
// Pure. Owned by the proxy's worker. Allocates only while paths are dead.
#pragma once

#include <vector>

#include "base/ids.h"
#include "proxy/daemon/outgoing.h"

namespace braid::proxy {

class WaitingMessages {
 public:
  // No proxy of the node can send it.
  void strand(Outgoing& message) { stranded_.push_back(&message); }
  // A credit that may not be granted at this moment (FO-9).
  void defer(Outgoing& message) { deferred_.push_back(&message); }
  bool any_stranded() const { return !stranded_.empty(); }
  bool any_deferred() const { return !deferred_.empty(); }

  // Hands each to dispatch(message), in order; what dispatch() gives back waits again.
  template <class Dispatch>
  void retry_stranded(Dispatch&& dispatch) {
    retry(stranded_, dispatch);
  }
  template <class Dispatch>
  void retry_deferred(Dispatch&& dispatch) {
    retry(deferred_, dispatch);
  }
  // Those to that cluster wait no longer: take(message) has them.
  template <class Take>
  void remove(ClusterId cluster, Take&& take) {
    for (std::vector<Outgoing*>* const list : {&stranded_, &deferred_})
      retry(*list, [&](Outgoing& message) {
        if (message.to == cluster)
          take(message);
        else
          list->push_back(&message);
      });
  }
  void clear() {
    stranded_.clear();
    deferred_.clear();
  }

 private:
  template <class Dispatch>
  void retry(std::vector<Outgoing*>& list, Dispatch&& dispatch) {
    taken_.swap(list);
    for (Outgoing* const message : taken_) dispatch(*message);
    taken_.clear();
  }

  std::vector<Outgoing*> stranded_;
  std::vector<Outgoing*> deferred_;
  std::vector<Outgoing*> taken_;  // those in retry()'s hands
};

}  // namespace braid::proxy
