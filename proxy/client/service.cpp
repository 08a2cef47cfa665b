#include "proxy/client/service.h"

#include "base/clock.h"

namespace braid::proxy {

Instant Service::now() {
  return monotonic_now();
}

}  // namespace braid::proxy
