#include "tools/braid/process/output_relay.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace braid::cli {

std::size_t OutputRelay::add(Process& process, const std::string& prefix) {
  sources_.push_back({.out = {std::move(process.out), LinePrefixer(prefix)},
                      .err = {std::move(process.err), LinePrefixer(prefix)}});
  return sources_.size() - 1;
}

void OutputRelay::report(const std::string& text) {
  print_error("braid: " + text);
}

void OutputRelay::print_error(const std::string& text) {
  err_.pending() += text + "\n";
}

void OutputRelay::watch(std::vector<pollfd>& fds) const {
  for (const Source& source : sources_) {
    if (source.out.pipe && out_.has_room()) fds.push_back({source.out.pipe.get(), POLLIN, 0});
    if (source.err.pipe && err_.has_room()) fds.push_back({source.err.pipe.get(), POLLIN, 0});
  }
  if (out_.wants_to_write()) fds.push_back({out_.fd(), POLLOUT, 0});
  if (err_.wants_to_write()) fds.push_back({err_.fd(), POLLOUT, 0});
}

void OutputRelay::read_some() {
  for (std::size_t i = 0; i < sources_.size(); ++i) read_some(i);
}

void OutputRelay::read_some(std::size_t source) {
  sources_[source].out.read_some(out_);
  sources_[source].err.read_some(err_);
}

void OutputRelay::write_some() {
  out_.write_some();
  err_.write_some();
}

bool OutputRelay::is_open() const {
  return std::any_of(sources_.begin(), sources_.end(),
                     [](const Source& s) { return s.out.pipe || s.err.pipe; });
}

void OutputRelay::close_sources() {
  for (Source& source : sources_) {
    source.out.close(out_);
    source.err.close(err_);
  }
}

void OutputRelay::Stream::read_some(Sink& to) {
  char bytes[65536];
  while (pipe && to.has_room()) {
    const ssize_t n = ::read(pipe.get(), bytes, sizeof bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) return close(to);
    lines.feed({bytes, static_cast<std::size_t>(n)}, to.pending());
  }
}

void OutputRelay::Stream::close(Sink& to) {
  lines.finish(to.pending());
  pipe.close();
}

}  // namespace braid::cli
