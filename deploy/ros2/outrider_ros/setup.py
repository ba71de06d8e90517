# SPDX-License-Identifier: Apache-2.0
from setuptools import setup

NAME = 'outrider_ros'

setup(
    name=NAME,
    version='0.1.0',
    packages=[NAME],
    data_files=[
        ('share/ament_index/resource_index/packages', [f'resource/{NAME}']),
        (f'share/{NAME}', ['package.xml']),
        (f'share/{NAME}/launch', ['launch/outrider.launch.py']),
        (f'share/{NAME}/config', ['config/outrider.yaml']),
    ],
    install_requires=['setuptools', 'outrider'],
    license='Apache-2.0',
    entry_points={'console_scripts': [f'outrider_node = {NAME}.node:main']},
)
