// Whether this process goes on with the image of another (image.h).
#pragma once

namespace braid::dsm::once {

bool has_arrived();

}  // namespace braid::dsm::once
