// NVRTC: only its version is asked for, since cuda_on_cpu.py takes its place.
extern "C" int nvrtcVersion(int* major, int* minor) {
    *major = 13;
    *minor = 0;
    return 0;
}
