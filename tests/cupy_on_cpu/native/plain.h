// Precompiled, and included before the text of each kernel that includes nothing.
#include "device.h"
