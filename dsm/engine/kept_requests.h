// Requests of other clusters for pages that this cluster cannot answer itself: those that
// it keeps until it knows the page's home (PG-20, PG-24), and those that it forwards to the
// home. Both are bounded by the number of requests that a cluster can have open (PG-19).
#pragma once

#include <cstdint>
#include <vector>

#include "base/check.h"
#include "base/ids.h"
#include "dsm/engine/outbox.h"
#include "dsm/engine/state_sink.h"
#include "dsm/engine/types.h"

namespace braid::dsm {

struct KeptRequest {
  ClusterId from;  // the cluster that sent the request first
  PageId page;
  std::uint32_t hops;  // how often it was forwarded
};

class KeptRequests {
 public:
  explicit KeptRequests(const EngineConfig& config)
      : max_each_(Outbox::max_requests(config)), unanswered_(config.clusters) {
    kept_.reserve(config.clusters * max_each_);
  }

  // Requests of that cluster that are kept, or are forwarded and still in the outbox.
  std::size_t unanswered(ClusterId from) const { return unanswered_[from.value()]; }
  bool empty() const { return kept_.empty(); }

  // The caller has checked unanswered().
  void keep(const KeptRequest& request) {
    CHECK_LT(kept_.size(), kept_.capacity());
    kept_.push_back(request);
    ++unanswered_[request.from.value()];
  }
  // Removes the requests for `page` and calls use(request) for each, in the order in which they came.
  template <class Use>
  void release(PageId page, Use&& use) {
    std::erase_if(kept_, [&](const KeptRequest& request) {
      if (request.page != page) return false;
      --unanswered_[request.from.value()];
      use(request);
      return true;
    });
  }

  void forward_queued(ClusterId from) { ++unanswered_[from.value()]; }
  void forward_sent(ClusterId from) {
    CHECK_GT(unanswered_[from.value()], 0u);
    --unanswered_[from.value()];
  }

  void check() const { CHECK_LE(kept_.size(), unanswered_.size() * max_each_); }  // PG-19
  void describe(StateSink& sink) const {
    for (const std::uint32_t n : unanswered_) sink.value(n);
    sink.value(kept_.size());
    for (const KeptRequest& r : kept_) sink.values(r.from.value(), r.page.value(), r.hops);
  }

 private:
  const std::size_t max_each_;
  std::vector<KeptRequest> kept_;
  std::vector<std::uint32_t> unanswered_;  // per cluster
};

}  // namespace braid::dsm
