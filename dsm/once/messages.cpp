#include "dsm/once/messages.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace braid::dsm::once {

void Descriptors::close_all() {
  for (int& fd : fds) {
    if (fd >= 0) ::close(fd);
    fd = -1;
  }
}

namespace {

constexpr std::size_t kHeadBytes = offsetof(Message, text);

struct Control {
  alignas(cmsghdr) char room[CMSG_SPACE(sizeof(int) * Message::kMaxDescriptors)] = {};
};

}  // namespace

bool send(int socket, const Message& message, const Descriptors& with) {
  iovec part{const_cast<Message*>(&message),
             kHeadBytes + message.text_bytes};  // NOLINT: sendmsg() only reads
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  Control control;
  const auto count = static_cast<std::size_t>(
      std::count_if(with.fds.begin(), with.fds.end(), [](int fd) { return fd >= 0; }));
  if (count > 0) {
    header.msg_control = control.room;
    header.msg_controllen = CMSG_SPACE(sizeof(int) * count);
    cmsghdr* const rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int) * count);
    // Those that there are stand first.
    std::memcpy(CMSG_DATA(rights), with.fds.data(), sizeof(int) * count);
  }
  ssize_t sent;
  while ((sent = ::sendmsg(socket, &header, MSG_NOSIGNAL)) < 0 && errno == EINTR) {
  }
  return sent == static_cast<ssize_t>(part.iov_len);
}

bool receive(int socket, Message* message, Descriptors* with) {
  iovec part{message, sizeof *message};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  Control control;
  header.msg_control = control.room;
  header.msg_controllen = sizeof control.room;
  ssize_t received;
  while ((received = ::recvmsg(socket, &header, MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR) {
  }
  Descriptors came;
  for (cmsghdr* c = received > 0 ? CMSG_FIRSTHDR(&header) : nullptr; c != nullptr;
       c = CMSG_NXTHDR(&header, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t bytes = std::min(c->cmsg_len - CMSG_LEN(0), sizeof came.fds);
    std::memcpy(came.fds.data(), CMSG_DATA(c), bytes);
  }
  const bool whole = received >= static_cast<ssize_t>(kHeadBytes) &&
                     (header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0 &&
                     message->text_bytes == static_cast<std::size_t>(received) - kHeadBytes;
  if (with == nullptr || !whole) came.close_all();
  if (with != nullptr) *with = came;
  return whole;
}

}  // namespace braid::dsm::once
