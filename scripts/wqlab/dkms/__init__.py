# SPDX-License-Identifier: GPL-2.0
"""The modules as a Debian package that DKMS builds for each kernel of a machine.

package.py lays out a source package for debhelper. In the files of debian/ it replaces @NAME@ and the like.
debian/*.dkms tells DKMS what is built for which kernel; lib/cmwq/Kbuild builds it.
"""
