# SPDX-License-Identifier: GPL-2.0
"""The engines that boot a kernel. engine.py defines the interface. Each other module is an engine."""
from pathlib import Path

from wqlab.guest.engines.arm64 import Arm64
from wqlab.guest.engines.engine import Engine
from wqlab.guest.engines.qemu import Qemu
from wqlab.guest.engines.uml import Uml
from wqlab.steps import Failure

ENGINES: dict[str, Engine] = {engine.name: engine for engine in (Uml(), Qemu(), Arm64())}


def find_kernel(kernel: str | Path, name: str | None = None) -> tuple[Engine, Path, Path]:
    """Return (engine, kernel file, build folder) for a build folder or a kernel file."""
    if name and name not in ENGINES:
        raise Failure(f'engine {name!r}: must be one of {", ".join(ENGINES)}')
    kernel = Path(kernel).absolute()
    engines = [ENGINES[name]] if name else list(ENGINES.values())
    if kernel.is_file():
        engine = next((engine for engine in engines if Path(engine.image).name == kernel.name), ENGINES[name or 'qemu'])
        place = Path(engine.image).parts
        built = kernel.parts[-len(place):] == place
        return engine, kernel, kernel.parents[len(place) - 1] if built else kernel.parent
    for engine in engines:
        if (kernel / engine.image).is_file():
            return engine, kernel / engine.image, kernel
    wanted = ' or '.join(engine.image for engine in engines)
    raise Failure(f'{kernel} has no {wanted}: build it with `make kernel` first')
