#!/usr/bin/env python3
"""Checks the machine code of the CUDA kernels, which needs nvcc 13 and no GPU; that for Jetson Orin, sm_87, is made as the
build makes it, by ptxas of CUDA 12.6.

Each kernel, for each architecture: no register is spilled, and those that products of up to 32 rows use have at most 128
registers. With nvdisasm, from the package index's wheel nvidia-cuda-nvdisasm, also: weights come by asynchronous copies of
16 bytes and are read by 16, or by 8 where a warp takes one panel alone (few rows). It prints, and does not judge, how
many instructions the loop has to each one of the tensor cores, which the chains of floats are part of.

  compiled.py [--arch 80 87 90 110] [--ptxas-12 PROGRAM] [--nvdisasm PROGRAM] [--json FILE]

Exit code 1 if a kernel falls short; 0 with a word where nvcc is not.
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / 'common/engine/model/cuda/kernels'
ARCHITECTURES = [80, 87, 90, 110]
ORIN = 87
MAX_REGISTERS = 128
PRODUCTS = re.compile(r'\b(few_rows|many_rows|multiply_lanes_block)<')
TENSOR_CORES = re.compile(r'\bIMMA\b')
READS = (r'LDS\.128', r'LDS\.64')  # of weights: by a warp that takes a pair of panels, or one


def find(program, *folders):
    return shutil.which(program) or shutil.which(program, path=os.pathsep.join(str(folder) for folder in folders))


def demangle(names):
    done = subprocess.run(['c++filt'], input='\n'.join(names), capture_output=True, text=True, check=True)
    short = [re.sub(r'outrider::(cuda::)?|\(anonymous namespace\)::', '', line) for line in done.stdout.splitlines()]
    return dict(zip(names, [re.sub(r'^void |\((?!\w+\)\d).*', '', line) for line in short]))


def is_wide(name):
    """Whether it is for more than 32 rows: 64 of a block of many rows."""
    return name.startswith('many_rows<') and name.endswith(', 4>')


def run(program, source, architecture, *words):
    """Returns the compiler's own words."""
    done = subprocess.run([program, *words], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f'compiled.py: {Path(program).name} fails on {source.name} for sm_{architecture}:\n{done.stderr[-2000:]}')
    return done.stderr


def compile_one(compilers, source, architecture, to):
    """The kernels of a file for an architecture: {mangled name: registers, spilled bytes and stack bytes}."""
    nvcc, ptxas_12 = compilers
    cubin = to / f'{source.stem}.sm_{architecture}.cubin'
    flags = ['-std=c++20', '-O3', '-fmad=false', f'-I{ROOT}', source, '-o']
    if architecture == ORIN:
        ptx = cubin.with_suffix('.ptx')
        run(nvcc, source, architecture, '-arch=compute_87', '-ptx', *flags, ptx)
        ptx.write_text(re.sub(r'^\.version 9\..*', '.version 8.5', ptx.read_text(), flags=re.M))
        said = run(ptxas_12, source, architecture, '-O3', '-v', '-arch=sm_87', ptx, '-o', cubin)
    else:
        said = run(nvcc, source, architecture, f'-arch=sm_{architecture}', '-Xptxas', '-v', '-cubin', *flags, cubin)
    kernels, name = {}, ''
    for line in said.splitlines():
        if found := re.search(r"Compiling entry function '(\w+)'", line):
            name = found.group(1)
            kernels[name] = {'registers': 0, 'spilled': 0, 'stack': 0}
        elif found := re.search(r'(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads', line):
            kernels[name].update(stack=int(found.group(1)), spilled=int(found.group(2)) + int(found.group(3)))
        elif found := re.search(r'Used (\d+) registers', line):
            kernels[name]['registers'] = int(found.group(1))
    return cubin, kernels


def functions_of(listing):
    """{mangled name: its instructions and labels, a line each} of nvdisasm's listing."""
    functions = {}
    for part in re.split(r'^\s*\.section\s+\.text\.', listing, flags=re.M)[1:]:
        name = re.match(r'\w+', part).group()
        functions[name] = [line.strip() for line in part.splitlines()
                           if re.match(r'\s*/\*[0-9a-f]{4,}\*/', line) or re.match(r'\.L_\w+:', line)]
    return functions


def loops_of(lines):
    """(first, last) of each loop: from a label to a branch back to it."""
    labels = {line[:-1]: at for at, line in enumerate(lines) if line.endswith(':')}
    for at, line in enumerate(lines):
        found = re.search(r'\bBRA\b.*\(?(\.L_\w+)', line)
        if found and labels.get(found.group(1), at) < at:
            yield labels[found.group(1)], at


def is_instruction(line):
    return not line.endswith(':') and ' NOP' not in line


def look_at(name, lines):
    """Counts a product's instructions: copies, reads, and instructions to each of the tensor cores'."""
    text = '\n'.join(lines)
    seen = {'copies': len(re.findall(r'LDGSTS\.\S*128', text)), 'wide_reads': len(re.findall(READS[name.startswith('few_rows')], text)),
            'mma': len(TENSOR_CORES.findall(text))}
    ratios = []
    for first, last in loops_of(lines):
        mma = sum(bool(TENSOR_CORES.search(line)) for line in lines[first:last + 1])
        if mma > 0:
            ratios.append(sum(map(is_instruction, lines[first:last + 1])) / mma)
    if ratios:
        seen['per_mma'] = round(min(ratios), 1)
    return seen


def faults_of(name, row):
    if row['spilled'] > 0:
        yield f"{row['spilled']} bytes are spilled"
    if PRODUCTS.match(name) and not is_wide(name) and row['registers'] > MAX_REGISTERS:
        yield f"{row['registers']} registers, more than {MAX_REGISTERS}"
    if 'copies' not in row:
        return
    if row['copies'] == 0:
        yield 'no asynchronous copies of 16 bytes'
    if row['wide_reads'] == 0 and not name.startswith('multiply_lanes'):
        yield 'weights are read by fewer bytes'
    if row['mma'] == 0 and not name.startswith('multiply_lanes'):
        yield 'the tensor cores are not used'


def check(compilers, nvdisasm, architectures, jobs):
    sources = sorted(FOLDER.glob('*.cu'))
    rows = []
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(jobs) as pool:
        tasks = [(source, architecture) for architecture in architectures for source in sources]
        for (source, architecture), (cubin, kernels) in zip(
                tasks, pool.map(lambda task: compile_one(compilers, *task, Path(folder)), tasks)):
            names = demangle(list(kernels)) if kernels else {}
            functions = {}
            if nvdisasm and any(PRODUCTS.match(name) for name in names.values()):
                listing = subprocess.run([nvdisasm, '-c', cubin], capture_output=True, text=True, check=True).stdout
                functions = functions_of(listing)
            for mangled, found in kernels.items():
                row = {'arch': architecture, 'file': source.name, 'kernel': names[mangled], **found}
                if mangled in functions and PRODUCTS.match(names[mangled]):
                    row.update(look_at(names[mangled], functions[mangled]))
                row['faults'] = list(faults_of(names[mangled], row))
                rows.append(row)
    return rows


def print_table(rows):
    print(f'{"arch":>5} {"file":22} {"kernels":>7} {"registers":>9} {"spilled":>7} {"stack":>5} {"per mma":>10} {"short":>5}')
    for arch, file in sorted({(row['arch'], row['file']) for row in rows}):
        these = [row for row in rows if (row['arch'], row['file']) == (arch, file)]
        ratios = [row['per_mma'] for row in these if 'per_mma' in row]
        per_mma = f'{min(ratios):.0f} to {max(ratios):.0f}' if ratios else '-'
        print(f"{arch:>5} {file:22} {len(these):>7} {max(row['registers'] for row in these):>9} "
              f"{sum(row['spilled'] for row in these):>7} {max(row['stack'] for row in these):>5} "
              f"{per_mma:>10} {sum(bool(row['faults']) for row in these):>5}")
    for row in rows:
        for fault in row['faults']:
            print(f"SHORT: sm_{row['arch']} {row['kernel']}: {fault}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n\n', maxsplit=1)[0])
    parser.add_argument('--arch', type=int, nargs='+', default=ARCHITECTURES, help='of sm_; default: %(default)s')
    parser.add_argument('--ptxas-12', default=next(ROOT.glob('.venv-nvcc/lib/python3*/site-packages/nvidia/cuda_nvcc/bin/ptxas'), None),
                        help='of CUDA 12.6; default: that of ./run build cuda')
    parser.add_argument('--nvdisasm', default=find('nvdisasm', '/usr/local/cuda/bin'), help='the program')
    parser.add_argument('--jobs', type=int, default=os.cpu_count())
    parser.add_argument('--json', type=Path, help='each kernel')
    options = parser.parse_args()
    nvcc = find('nvcc', '/usr/local/cuda/bin')
    if not nvcc:
        print('compiled.py: skipped, no nvcc in PATH or /usr/local/cuda/bin')
        return 0
    if not options.nvdisasm:
        print("compiled.py: no nvdisasm, so instructions are not looked at. Remedy: pip install nvidia-cuda-nvdisasm, --nvdisasm")
    if ORIN in options.arch and not options.ptxas_12:
        print('compiled.py: no ptxas of CUDA 12.6, so sm_87 is left out. Remedy: ./run build cuda, or --ptxas-12')
        options.arch.remove(ORIN)
    rows = check((nvcc, options.ptxas_12), options.nvdisasm, options.arch, options.jobs)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))
    print_table(rows)
    short = sum(bool(row['faults']) for row in rows)
    print(f'{len(rows)} kernels, {short} fall short')
    return 1 if short else 0


if __name__ == '__main__':
    sys.exit(main())
