"""Starts the node, configures it and activates it.

  ros2 launch outrider_ros outrider.launch.py params:=my.yaml

SPDX-License-Identifier: Apache-2.0
"""
from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument, EmitEvent, RegisterEventHandler
from launch.events import matches_action
from launch.substitutions import LaunchConfiguration, PathJoinSubstitution
from launch_ros.actions import LifecycleNode
from launch_ros.event_handlers import OnStateTransition
from launch_ros.events.lifecycle import ChangeState
from launch_ros.substitutions import FindPackageShare
from lifecycle_msgs.msg import Transition


def generate_launch_description():
    node = LifecycleNode(package='outrider_ros', executable='outrider_node', name='outrider', namespace='', output='screen',
                         parameters=[LaunchConfiguration('params')])

    def change(transition):
        return EmitEvent(event=ChangeState(lifecycle_node_matcher=matches_action(node), transition_id=transition))

    return LaunchDescription([
        DeclareLaunchArgument('params', default_value=PathJoinSubstitution([FindPackageShare('outrider_ros'), 'config', 'outrider.yaml']),
                              description='A file of parameters'),
        node,
        # A node that somebody deactivates stays inactive.
        RegisterEventHandler(OnStateTransition(target_lifecycle_node=node, start_state='configuring', goal_state='inactive',
                                               entities=[change(Transition.TRANSITION_ACTIVATE)])),
        change(Transition.TRANSITION_CONFIGURE),
    ])
