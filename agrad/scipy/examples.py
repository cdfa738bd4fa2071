"""The examples in docstrings of made functions, by section and name."""

EXAMPLES: dict[str, str] = {
    "fft.dct": """
>>> x = np.asarray([1.0, 2.0, 0.0, 2.0])
>>> fft.dct(x).round(4)
array([10.    , -0.317 ,  1.4142, -4.4609])
>>> agrad.grad(lambda x: fft.dct(x)[1])(x).round(4)
array([ 1.8478,  0.7654, -0.7654, -1.8478])
""",
    "fft.dctn": """
>>> x = np.asarray([[1.0, 2.0], [3.0, 5.0]])
>>> fft.dctn(x).round(4)
array([[ 44.    ,  -8.4853],
       [-14.1421,   2.    ]])
>>> agrad.grad(lambda x: fft.dctn(x)[0, 1])(x).round(4)
array([[ 2.8284, -2.8284],
       [ 2.8284, -2.8284]])
""",
    "fft.fft": """
>>> x = np.asarray([1.0, 2.0, 0.0, 2.0])
>>> fft.fft(x)
array([ 5.+0.j,  1.+0.j, -3.+0.j,  1.+0.j])
>>> agrad.grad(lambda x: agrad.sum(agrad.abs(fft.fft(x)) ** 2))(x)
array([ 8., 16.,  0., 16.])
""",
    "fft.fftfreq": """
>>> fft.fftfreq(5, np.asarray(0.5))
array([ 0. ,  0.4,  0.8, -0.8, -0.4])
>>> agrad.jacobian(lambda d: fft.fftfreq(5, d))(np.asarray(0.5))
array([-0. , -0.8, -1.6,  1.6,  0.8])
""",
    "fft.fftn": """
>>> x = np.asarray([[1.0, 2.0], [3.0, 4.0]])
>>> fft.fftn(x)
array([[10.+0.j, -2.+0.j],
       [-4.+0.j,  0.+0.j]])
>>> agrad.grad(lambda x: agrad.sum(agrad.abs(fft.fftn(x)) ** 2))(x)
array([[ 8., 16.],
       [24., 32.]])
""",
    "fft.fftshift": """
>>> fft.fftshift(np.asarray([0.0, 1.0, -2.0, -1.0]))
array([-2., -1.,  0.,  1.])
""",
    "fft.hfft": """
>>> fft.hfft(np.asarray([1.0, 2.0, 3.0]))
array([ 8., -2.,  0., -2.])
>>> agrad.grad(lambda x: fft.hfft(x)[0])(np.asarray([1.0, 2.0, 3.0]))
array([1., 2., 1.])
""",
    "fft.hfftn": """
>>> x = np.asarray([[1.0, 2.0], [3.0, 4.0]])
>>> fft.hfftn(x)
array([[10., -2.],
       [-4.,  0.]])
>>> agrad.grad(lambda x: fft.hfftn(x)[0, 0])(x)
array([[1., 1.],
       [1., 1.]])
""",
    "fft.idct": """
>>> x = np.asarray([1.0, 2.0, 0.0, 2.0])
>>> fft.idct(x).round(4)
array([ 0.7783, -0.1456,  0.3956, -0.5283])
>>> agrad.grad(lambda x: fft.idct(x)[1])(x).round(4)
array([ 0.125 ,  0.0957, -0.1768, -0.231 ])
""",
    "fft.idctn": """
>>> x = np.asarray([[1.0, 2.0], [3.0, 5.0]])
>>> fft.idctn(x).round(4)
array([[ 1.1294, -0.4741],
       [-0.6509,  0.2456]])
>>> agrad.grad(lambda x: fft.idctn(x)[0, 1])(x).round(4)
array([[ 0.0625, -0.0884],
       [ 0.0884, -0.125 ]])
""",
    "fft.ifft": """
>>> x = np.asarray([1.0, 2.0, 0.0, 2.0])
>>> fft.ifft(fft.fft(x))
array([1.+0.j, 2.+0.j, 0.+0.j, 2.+0.j])
>>> agrad.grad(lambda x: agrad.real(fft.ifft(x)[0]))(x)
array([0.25, 0.25, 0.25, 0.25])
""",
    "fft.ifftn": """
>>> x = np.asarray([[1.0, 2.0], [3.0, 4.0]])
>>> fft.ifftn(fft.fftn(x))
array([[1.+0.j, 2.+0.j],
       [3.+0.j, 4.+0.j]])
>>> agrad.grad(lambda x: agrad.real(fft.ifftn(x)[0, 0]))(x)
array([[0.25, 0.25],
       [0.25, 0.25]])
""",
    "fft.ifftshift": """
>>> fft.ifftshift(np.asarray([-2.0, -1.0, 0.0, 1.0]))
array([ 0.,  1., -2., -1.])
""",
    "fft.ihfft": """
>>> x = np.asarray([1.0, 2.0, 0.0, 2.0])
>>> agrad.real(fft.ihfft(x))
array([ 1.25,  0.25, -0.75])
>>> agrad.grad(lambda x: agrad.real(fft.ihfft(x)[0]))(x)
array([0.25, 0.25, 0.25, 0.25])
""",
    "fft.ihfftn": """
>>> x = np.asarray([[1.0, 2.0], [3.0, 4.0]])
>>> fft.ihfftn(x) + 0
array([[ 2.5+0.j, -0.5+0.j],
       [-1. +0.j,  0. +0.j]])
>>> agrad.grad(lambda x: agrad.real(fft.ihfftn(x)[0, 0]))(x)
array([[0.25, 0.25],
       [0.25, 0.25]])
""",
    "fft.irfft": """
>>> fft.irfft(np.asarray([5.0, 1.0, -3.0]))
array([1., 2., 0., 2.])
>>> agrad.grad(lambda x: fft.irfft(x)[0])(np.asarray([5.0, 1.0, -3.0]))
array([0.25, 0.5 , 0.25])
""",
    "fft.irfftn": """
>>> x = np.asarray([[1.0, 2.0], [3.0, 4.0]])
>>> fft.irfftn(fft.rfftn(x))
array([[1., 2.],
       [3., 4.]])
>>> agrad.grad(lambda x: fft.irfftn(x)[0, 0])(x)
array([[0.25, 0.25],
       [0.25, 0.25]])
""",
    "fft.rfft": """
>>> x = np.asarray([1.0, 2.0, 0.0, 2.0])
>>> fft.rfft(x)
array([ 5.+0.j,  1.+0.j, -3.+0.j])
>>> agrad.grad(lambda x: agrad.sum(agrad.abs(fft.rfft(x)) ** 2))(x)
array([ 6., 16.,  2., 16.])
""",
    "fft.rfftfreq": """
>>> fft.rfftfreq(5, np.asarray(0.5))
array([0. , 0.4, 0.8])
>>> agrad.jacobian(lambda d: fft.rfftfreq(5, d))(np.asarray(0.5))
array([-0. , -0.8, -1.6])
""",
    "fft.rfftn": """
>>> x = np.asarray([[1.0, 2.0], [3.0, 4.0]])
>>> fft.rfftn(x)
array([[10.+0.j, -2.+0.j],
       [-4.+0.j,  0.+0.j]])
>>> agrad.grad(lambda x: agrad.sum(agrad.abs(fft.rfftn(x)) ** 2))(x)
array([[ 8., 16.],
       [24., 32.]])
""",
    "linalg.coshm": """
>>> a = np.asarray([[0.1, 1.0], [0.5, 0.2]])
>>> linalg.coshm(a).round(4)
array([[1.268 , 0.1635],
       [0.0817, 1.2843]])
>>> agrad.grad(lambda a: agrad.sum(linalg.coshm(a)))(a).round(4)
array([[0.9567, 0.7323],
       [1.3012, 1.0705]])
""",
    "linalg.cosm": """
>>> a = np.asarray([[0.1, 1.0], [0.5, 0.2]])
>>> linalg.cosm(a).round(4)
array([[ 0.7574, -0.1372],
       [-0.0686,  0.7437]])
>>> agrad.grad(lambda a: agrad.sum(linalg.cosm(a)))(a).round(4)
array([[-0.7508, -0.5735],
       [-1.0097, -0.8381]])
""",
    "linalg.sinhm": """
>>> a = np.asarray([[0.1, 1.0], [0.5, 0.2]])
>>> linalg.sinhm(a).round(4)
array([[0.1351, 1.0981],
       [0.5491, 0.2449]])
>>> agrad.grad(lambda a: agrad.sum(linalg.sinhm(a)))(a).round(4)
array([[1.3773, 1.3127],
       [1.5274, 1.4203]])
""",
    "linalg.sinm": """
>>> a = np.asarray([[0.1, 1.0], [0.5, 0.2]])
>>> linalg.sinm(a).round(4)
array([[0.068 , 0.908 ],
       [0.454 , 0.1588]])
>>> agrad.grad(lambda a: agrad.sum(linalg.sinm(a)))(a).round(4)
array([[0.6663, 0.7219],
       [0.5358, 0.629 ]])
""",
    "linalg.tanhm": """
>>> a = np.asarray([[0.1, 1.0], [0.5, 0.2]])
>>> linalg.tanhm(a).round(4)
array([[0.0518, 0.8484],
       [0.4242, 0.1367]])
>>> agrad.grad(lambda a: agrad.sum(linalg.tanhm(a)))(a).round(4)
array([[0.5338, 0.605 ],
       [0.3616, 0.4851]])
""",
    "linalg.tanm": """
>>> a = np.asarray([[0.1, 1.0], [0.5, 0.2]])
>>> linalg.tanm(a).round(4)
array([[0.2038, 1.2585],
       [0.6293, 0.3297]])
>>> agrad.grad(lambda a: agrad.sum(linalg.tanm(a)))(a).round(4)
array([[2.2917, 2.0484],
       [2.8383, 2.4497]])
""",
    "ndimage.convolve": """
>>> x = np.asarray([1.0, 2.0, 4.0, 8.0])
>>> ndimage.convolve(x, np.asarray([1.0, 0.0, -1.0]))
array([1., 3., 6., 4.])
>>> agrad.grad(lambda w: ndimage.convolve(x, w)[1])(np.asarray([1.0, 0.0, -1.0]))
array([4., 2., 1.])
""",
    "ndimage.convolve1d": """
>>> x = np.asarray([1.0, 2.0, 4.0, 8.0])
>>> ndimage.convolve1d(x, np.asarray([1.0, 0.0, -1.0]))
array([1., 3., 6., 4.])
>>> agrad.grad(lambda w: ndimage.convolve1d(x, w)[1])(np.asarray([1.0, 0.0, -1.0]))
array([4., 2., 1.])
""",
    "ndimage.correlate": """
>>> x = np.asarray([1.0, 2.0, 4.0, 8.0])
>>> ndimage.correlate(x, np.asarray([1.0, 0.0, -1.0]))
array([-1., -3., -6., -4.])
>>> agrad.grad(lambda w: ndimage.correlate(x, w)[1])(np.asarray([1.0, 0.0, -1.0]))
array([1., 2., 4.])
""",
    "ndimage.correlate1d": """
>>> x = np.asarray([1.0, 2.0, 4.0, 8.0])
>>> ndimage.correlate1d(x, np.asarray([1.0, 0.0, -1.0]))
array([-1., -3., -6., -4.])
>>> agrad.grad(lambda w: ndimage.correlate1d(x, w)[1])(np.asarray([1.0, 0.0, -1.0]))
array([1., 2., 4.])
""",
    "ndimage.maximum_filter": """
>>> x = np.asarray([1.0, 8.0, 4.0, 2.0])
>>> ndimage.maximum_filter(x, size=3)
array([8., 8., 8., 4.])
>>> agrad.grad(lambda x: agrad.sum(ndimage.maximum_filter(x, size=3)))(x)
array([0., 3., 1., 0.])
""",
    "ndimage.median_filter": """
>>> x = np.asarray([1.0, 8.0, 4.0, 2.0])
>>> ndimage.median_filter(x, size=3)
array([1., 4., 4., 2.])
>>> agrad.grad(lambda x: agrad.sum(ndimage.median_filter(x, size=3)))(x)
array([1., 0., 2., 1.])
""",
    "ndimage.minimum_filter": """
>>> x = np.asarray([1.0, 8.0, 4.0, 2.0])
>>> ndimage.minimum_filter(x, size=3)
array([1., 1., 2., 2.])
>>> agrad.grad(lambda x: agrad.sum(ndimage.minimum_filter(x, size=3)))(x)
array([2., 0., 0., 2.])
""",
    "ndimage.prewitt": """
>>> x = np.asarray([[1.0, 2.0, 4.0], [0.0, 1.0, 3.0], [2.0, 2.0, 5.0]])
>>> ndimage.prewitt(x)[1]
array([2., 9., 7.])
>>> agrad.grad(lambda x: ndimage.prewitt(x)[1, 1])(x)[:, 2]
array([1., 1., 1.])
""",
    "ndimage.sobel": """
>>> x = np.asarray([[1.0, 2.0, 4.0], [0.0, 1.0, 3.0], [2.0, 2.0, 5.0]])
>>> ndimage.sobel(x)[1]
array([ 3., 12.,  9.])
>>> agrad.grad(lambda x: ndimage.sobel(x)[1, 1])(x)[:, 2]
array([1., 2., 1.])
""",
    "windows.barthann": """
>>> signal.windows.barthann(5).round(4)[1:4]
Tensor([0.5, 1.0, 0.5], dtype=float64, backend=numpy, device=cpu)
""",
    "windows.bartlett": """
>>> signal.windows.bartlett(5).round(4)[1:4]
Tensor([0.5, 1.0, 0.5], dtype=float64, backend=numpy, device=cpu)
""",
    "windows.blackman": """
>>> signal.windows.blackman(5).round(4)[1:4]
Tensor([0.34, 1.0, 0.34], dtype=float64, backend=numpy, device=cpu)
""",
    "windows.blackmanharris": """
>>> signal.windows.blackmanharris(5).round(4)
Tensor([0.0001, 0.2175, 1.0, 0.2175, 0.0001], dtype=float64, backend=numpy, device=cpu)
""",
    "windows.bohman": """
>>> signal.windows.bohman(5).round(4)[1:4]
Tensor([0.3183, 1.0, 0.3183], dtype=float64, backend=numpy, device=cpu)
""",
    "windows.boxcar": """
>>> signal.windows.boxcar(5).round(4)
Tensor([1.0, 1.0, 1.0, 1.0, 1.0], dtype=float64, backend=numpy, device=cpu)
""",
    "windows.cosine": """
>>> signal.windows.cosine(5).round(4)
Tensor([0.309, 0.809, 1.0, 0.809, 0.309], dtype=float64, backend=numpy, device=cpu)
""",
    "windows.flattop": """
>>> signal.windows.flattop(5).round(4)
Tensor([-0.0004, -0.0547, 1.0, -0.0547, -0.0004], dtype=float64, backend=numpy, device=cpu)
""",
    "windows.hamming": """
>>> signal.windows.hamming(5).round(4)
Tensor([0.08, 0.54, 1.0, 0.54, 0.08], dtype=float64, backend=numpy, device=cpu)
""",
    "windows.hann": """
>>> signal.windows.hann(5).round(4)[1:4]
Tensor([0.5, 1.0, 0.5], dtype=float64, backend=numpy, device=cpu)
""",
    "windows.lanczos": """
>>> signal.windows.lanczos(5).round(4)[1:4]
Tensor([0.6366, 1.0, 0.6366], dtype=float64, backend=numpy, device=cpu)
""",
    "windows.nuttall": """
>>> signal.windows.nuttall(5).round(4)
Tensor([0.0004, 0.227, 1.0, 0.227, 0.0004], dtype=float64, backend=numpy, device=cpu)
""",
    "windows.parzen": """
>>> signal.windows.parzen(5).round(4)
Tensor([0.016, 0.424, 1.0, 0.424, 0.016], dtype=float64, backend=numpy, device=cpu)
""",
    "windows.triang": """
>>> signal.windows.triang(5).round(4)
Tensor([0.3333, 0.6667, 1.0, 0.6667, 0.3333], dtype=float64, backend=numpy, device=cpu)
""",
}
