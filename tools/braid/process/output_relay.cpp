#include "tools/braid/process/output_relay.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/check.h"
#include "tools/braid/process/pipe.h"

namespace braid::cli {

std::size_t OutputRelay::add(Process& process, const std::string& prefix) {
  sources_.push_back({.out = {std::move(process.out), LinePrefixer(prefix)},
                      .err = {std::move(process.err), LinePrefixer(prefix)}});
  return sources_.size() - 1;
}

Result<int> OutputRelay::unlabelled(int stream) {
  CHECK(stream == 1 || stream == 2);
  Descriptor& end = unlabelled_ends_[stream - 1];
  if (!end) {
    Result<Pipe> pipe = make_pipe();
    if (!pipe) return pipe.error();
    ::fcntl(pipe->read.get(), F_SETFL, O_NONBLOCK);
    (stream == 1 ? unlabelled_.out : unlabelled_.err).pipe = std::move(pipe->read);
    end = std::move(pipe->write);
  }
  return end.get();
}

void OutputRelay::no_more_unlabelled() {
  for (Descriptor& end : unlabelled_ends_) end.close();
}

void OutputRelay::report(const std::string& text) {
  print_error("braid: " + text);
}

void OutputRelay::print_error(const std::string& text) {
  err_.pending() += text + "\n";
}

void OutputRelay::watch(std::vector<pollfd>& fds) const {
  const auto watch_source = [&](const Source& source) {
    if (source.out.pipe && out_.has_room()) fds.push_back({source.out.pipe.get(), POLLIN, 0});
    if (source.err.pipe && err_.has_room()) fds.push_back({source.err.pipe.get(), POLLIN, 0});
  };
  for (const Source& source : sources_) watch_source(source);
  watch_source(unlabelled_);
  if (out_.wants_to_write()) fds.push_back({out_.fd(), POLLOUT, 0});
  if (err_.wants_to_write()) fds.push_back({err_.fd(), POLLOUT, 0});
}

void OutputRelay::read_some() {
  for (std::size_t i = 0; i < sources_.size(); ++i) read_some(i);
  read_unlabelled();
}

void OutputRelay::read_some(std::size_t source) {
  sources_[source].out.read_some(out_);
  sources_[source].err.read_some(err_);
}

void OutputRelay::read_unlabelled() {
  unlabelled_.out.read_some(out_);
  unlabelled_.err.read_some(err_);
}

void OutputRelay::write_some() {
  out_.write_some();
  err_.write_some();
}

bool OutputRelay::is_open() const {
  const auto is_open = [](const Source& s) { return s.out.pipe || s.err.pipe; };
  return is_open(unlabelled_) || std::any_of(sources_.begin(), sources_.end(), is_open);
}

void OutputRelay::close_sources() {
  no_more_unlabelled();
  const auto close_source = [&](Source& source) {
    source.out.close(out_);
    source.err.close(err_);
  };
  for (Source& source : sources_) close_source(source);
  close_source(unlabelled_);
}

void OutputRelay::Stream::read_some(Sink& to) {
  char bytes[65536];
  while (pipe && to.has_room()) {
    const ssize_t n = ::read(pipe.get(), bytes, sizeof bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) return close(to);
    if (lines)
      lines->feed({bytes, static_cast<std::size_t>(n)}, to.pending());
    else
      to.pending().append(bytes, static_cast<std::size_t>(n));
  }
}

void OutputRelay::Stream::close(Sink& to) {
  if (lines) lines->finish(to.pending());
  pipe.close();
}

}  // namespace braid::cli
