# SPDX-License-Identifier: Apache-2.0
"""Where the time of compiled calls goes, by the steps of their programs (`tensord.profile`)."""
