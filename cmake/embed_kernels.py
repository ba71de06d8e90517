#!/usr/bin/env python3
"""Writes the C++ source that holds the machine code of CUDA kernels in a program (gpu_kernel.h):

  embed_kernels.py --function NAME --out FILE ARCHITECTURE:TOOLKIT:CUBIN..

NAME: of the function that gives the images. TOOLKIT: the version of CUDA that made the code, as 12060.
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import re
import subprocess
from pathlib import Path


def symbols_of(cubin):
    """The functions in the machine code; some are parts of kernels."""
    listing = subprocess.run(['nm', cubin], capture_output=True, text=True, check=True).stdout
    return re.findall(r'^[0-9a-f]+ [tT] (_Z\w+)$', listing, flags=re.M)


def names_of(symbols):
    """Each as the host's compiler knows it: without anonymous namespaces, result and parameters."""
    done = subprocess.run(['c++filt'], input='\n'.join(symbols), capture_output=True, text=True, check=True)
    lines = [line.replace('(anonymous namespace)::', '') for line in done.stdout.splitlines()]
    return [re.sub(r'^void ', '', line[:line.rindex('(')]) for line in lines]


def source_of(function, images):
    lines = ['// SPDX-License-Identifier: Apache-2.0', '#include "common/engine/model/cuda/device/gpu_kernel.h"', '']
    for number, (_, _, cubin) in enumerate(images):
        lines.append(f'asm(".pushsection .rodata\\n.balign 64\\n{function}_{number}:\\n.incbin \\"{cubin}\\"\\n.popsection\\n");')
        lines.append(f'extern "C" const unsigned char {function}_{number}[];')
    lines += ['', 'namespace outrider::cuda {', 'namespace {', '']
    for number, (_, _, cubin) in enumerate(images):
        symbols = symbols_of(cubin)
        lines.append(f'constexpr KernelSymbol kSymbols{number}[] = {{')
        lines += [f'    {{"{name}", "{symbol}"}},' for name, symbol in zip(names_of(symbols), symbols)]
        lines.append('};')
    lines.append('const GpuImage kImages[] = {')
    lines += [f'    {{{{{architecture}, {toolkit}}}, {function}_{number}, kSymbols{number}}},'
              for number, (architecture, toolkit, _) in enumerate(images)]
    lines += ['};', '', '}  // namespace', '', f'std::span<const GpuImage> {function}() {{', '  return kImages;', '}', '',
              '}  // namespace outrider::cuda', '']
    return '\n'.join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n\n', maxsplit=1)[0])
    parser.add_argument('--function', required=True)
    parser.add_argument('--out', type=Path, required=True)
    parser.add_argument('images', nargs='+')
    options = parser.parse_args()
    options.out.write_text(source_of(options.function, [image.split(':') for image in options.images]))


if __name__ == '__main__':
    main()
