#include "base/version.h"

namespace tensord {

const char* Version() { return TENSORD_VERSION; }

}  // namespace tensord
