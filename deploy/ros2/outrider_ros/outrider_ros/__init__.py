"""A ROS 2 lifecycle node over an Outrider edge. SPDX-License-Identifier: Apache-2.0"""
